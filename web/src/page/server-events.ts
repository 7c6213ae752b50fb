// Server-sent events (HTML standard, section 9.2.6), read from a reply of `fetch`: a request of `EventSource` cannot have
// `Last-Event-ID` at its start, which a tab needs to continue the stream of another tab.

export interface Message {
  name: string;
  data: string;
  id?: string;
}

export class MessageReader {
  private rest = "";
  private name = "";
  private data: string[] = [];
  private id: string | undefined;

  /** Returns the messages that end in `text`. */
  read(text: string): Message[] {
    const lines = (this.rest + text).split("\n");
    this.rest = lines.pop() ?? "";
    const messages: Message[] = [];
    for (const line of lines) {
      const message = this.line(line.endsWith("\r") ? line.slice(0, -1) : line);
      if (message) messages.push(message);
    }
    return messages;
  }

  private line(line: string): Message | undefined {
    if (line === "") return this.end();
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "event") this.name = value;
    else if (field === "data") this.data.push(value);
    else if (field === "id") this.id = value;
    return undefined;
  }

  private end(): Message | undefined {
    const { name, data, id } = this;
    [this.name, this.data, this.id] = ["", [], undefined];
    if (data.length === 0) return undefined;
    return { name: name || "message", data: data.join("\n"), ...(id === undefined ? {} : { id }) };
  }
}
