// The page of the service.

import { render } from "preact";
import { App } from "./app";
import { followGamepads } from "./gamepad";
import { listenForKeys } from "./keys";
import { offerPreviews } from "./served-simulator";
import { begin } from "./store";
import { showTheme } from "./settings";
import "./theme.css";
import "./page.css";
import "./editor.css";
import "./views.css";

showTheme();
begin();
void offerPreviews();
listenForKeys();
followGamepads();
render(<App />, document.body);
