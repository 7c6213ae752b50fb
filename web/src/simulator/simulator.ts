// The simulator in a worker.

import type { Answer, Call, Complaint, OnProgress, Policy, Request, Simulated } from "./request";
import type { Source } from "./source";

/** The reason of a run that a newer run or `cancel` ended. */
export class Cancelled extends Error {
  override name = "Cancelled";
}

/** The simulator failed. The request repeats the failure. */
export class InternalError extends Error {
  override name = "InternalError";

  constructor(
    message: string,
    readonly request: string,
  ) {
    super(message);
  }
}

interface Pending {
  call: Call;
  request: string;
  onProgress: OnProgress;
  resolve(json: string): void;
  reject(reason: unknown): void;
}

/**
 * Runs scenarios in a worker. A newer run cancels the present run: its worker ends, and another worker starts. A worker
 * also ends after a trap of the module.
 */
export class Simulator {
  readonly #source: Source;
  #module: Promise<WebAssembly.Module> | undefined;
  #worker: Worker | undefined;
  #pending = new Map<number, Pending>();
  #next = 0;

  constructor(source: Source) {
    this.#source = source;
  }

  /** Runs a request. Rejects with complaints about the request, or with `Cancelled` or `InternalError`. */
  async run(request: Request, onProgress: OnProgress = () => {}): Promise<Simulated> {
    this.cancel();
    const text = JSON.stringify(request);
    return JSON.parse(await this.#call((id) => ({ id, run: text }), text, onProgress)) as Simulated;
  }

  /** Runs a preview of promises, as crates/wasm describes it. Rejects like `run`, and cancels the present run or preview. */
  async preview<Result>(request: object): Promise<Result> {
    this.cancel();
    const text = JSON.stringify(request);
    return JSON.parse(await this.#call((id) => ({ id, preview: text }), text, () => {})) as Result;
  }

  /** Returns all policies with their essays. */
  async policies(): Promise<Policy[]> {
    const json = await this.#call((id) => ({ id, policies: true }), "policies", () => {});
    return JSON.parse(json) as Policy[];
  }

  /** Cancels the present run or preview, if there is one. */
  cancel(): void {
    const all = [...this.#pending.values()];
    const runs = all.filter(({ call }) => !("policies" in call));
    if (runs.length > 0) {
      this.#end(runs, () => new Cancelled("the run was cancelled"));
      all.filter(({ call }) => "policies" in call).forEach((pending) => this.#post(pending));
    }
  }

  #call(call: (id: number) => Call, request: string, onProgress: OnProgress): Promise<string> {
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      const pending = { call: call(id), request, onProgress, resolve, reject };
      this.#pending.set(id, pending);
      this.#post(pending);
    });
  }

  #post(pending: Pending): void {
    const isPending = () => [...this.#pending.values()].includes(pending);
    this.#compiled().then(
      // The call may have been cancelled during the compilation.
      (module) => isPending() && this.#started(module).postMessage(pending.call),
      (error) => this.#trapped(`the module cannot be loaded: ${error}`),
    );
  }

  #compiled(): Promise<WebAssembly.Module> {
    return (this.#module ??= this.#source.module());
  }

  #started(module: WebAssembly.Module): Worker {
    if (!this.#worker) {
      const worker = this.#source.worker();
      worker.onmessage = ({ data }: MessageEvent<Answer>) => this.#receive(data);
      worker.onerror = (event) => {
        event.preventDefault();
        this.#trapped(event.message || "the worker cannot be loaded");
      };
      worker.postMessage({ module } satisfies Call);
      this.#worker = worker;
    }
    return this.#worker;
  }

  #receive(answer: Answer): void {
    const pending = this.#pending.get(answer.id);
    if ("trapped" in answer) {
      this.#trapped(answer.trapped);
    } else if (!pending) {
      return;
    } else if ("progress" in answer) {
      pending.onProgress(...answer.progress);
    } else {
      this.#pending.delete(answer.id);
      if ("done" in answer) {
        pending.resolve(answer.done);
      } else {
        pending.reject(JSON.parse(answer.refused) as Complaint[]);
      }
    }
  }

  #trapped(message: string): void {
    this.#end([...this.#pending.values()], ({ request }) => new InternalError(message, request));
  }

  /** Ends the worker, and rejects these calls. The next call starts another worker. */
  #end(calls: Pending[], reason: (pending: Pending) => Error): void {
    this.#worker?.terminate();
    this.#worker = undefined;
    for (const [id, pending] of [...this.#pending]) {
      if (calls.includes(pending)) {
        this.#pending.delete(id);
        pending.reject(reason(pending));
      }
    }
  }
}
