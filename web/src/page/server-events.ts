// Server-sent events, read from a reply of `fetch`: a request of `EventSource` cannot have `Last-Event-ID` at its start, which
// a tab needs to continue the stream of another tab.

import { createParser } from "eventsource-parser";

export interface Message {
  name: string;
  data: string;
  id?: string;
}

export class MessageReader {
  private messages: Message[] = [];
  private readonly parser = createParser({
    onEvent: ({ event, data, id }) => void this.messages.push({ name: event ?? "message", data, ...(id === undefined ? {} : { id }) }),
  });

  /** Returns the messages that end in `text`. */
  read(text: string): Message[] {
    this.messages = [];
    this.parser.feed(text);
    return this.messages;
  }
}
