// The JavaScript of wasm-bindgen for the module in crates/wasm; `cargo xtask site` builds it.
declare module "tactus-module" {
  export function initSync(options: { module: WebAssembly.Module }): unknown;
  export function simulate(request: string, progress: (now: number, end: number) => void): string;
  export function preview(request: string): string;
  export function policies(): string;
}
