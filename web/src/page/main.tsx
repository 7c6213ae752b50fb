// Starts the page.

import { render } from "preact";
import { App } from "./app";
import { begin } from "./live";
import "./page.css";

const place = document.getElementById("page");
if (place) render(<App />, place);
begin();
