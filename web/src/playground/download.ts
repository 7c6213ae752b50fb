// Files that the page makes.

/** Offers a text as a file. */
export function download(name: string, type: string, text: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  // The browser has begun to read the text by then.
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
