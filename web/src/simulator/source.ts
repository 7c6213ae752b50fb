// Where the module and the worker come from: scripts beside the page, or files of a server.

/** What a simulator is made of. */
export interface Source {
  /** Compiles the module. */
  module(): Promise<WebAssembly.Module>;
  /** Starts a worker. */
  worker(): Worker;
}

/** The contents of `simulator.js`, which `playground.config.ts` writes. */
export interface Embedded {
  /** The source of the worker. */
  worker: string;
  /** The module: bytes of WebAssembly, compressed with gzip, in base64. */
  module: string;
}

/** A source for pages from a folder (`file://`), which cannot fetch files: a script contains both parts. */
export function embedded({ worker, module }: Embedded): Source {
  const script = URL.createObjectURL(new Blob([worker], { type: "text/javascript" }));
  return {
    async module() {
      const packed = Uint8Array.from(atob(module), (letter) => letter.charCodeAt(0));
      const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
      return WebAssembly.compile(await new Response(unpacked).arrayBuffer());
    },
    worker: () => new Worker(script),
  };
}

/** A source for pages of a server: a file with the worker, and a file with the module. */
export function served(worker: URL | string, module: URL | string): Source {
  return {
    module: () => WebAssembly.compileStreaming(fetch(module)),
    worker: () => new Worker(worker),
  };
}
