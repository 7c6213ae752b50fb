// Serves the built page with the headers of the crate `page`, and passes requests of the interface on to the Unix socket of a
// service. Tests replace the connection with it.
//
//   node tests/serve-page.mjs SOCKET [PORT]

import { createReadStream, existsSync } from "node:fs";
import http from "node:http";
import { extname, join, resolve } from "node:path";

const ASSETS = resolve(import.meta.dirname, "../../crates/page/assets");
// The simulator, as `cargo xtask page` adds it to the files of the page.
const SIMULATOR = resolve(import.meta.dirname, "../../target/page-simulator");
const TYPES = { ".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8" };
export const MAY_LOAD =
  "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; style-src 'self'; " +
  "img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/** Replies with a part of the simulator, if it was built. */
function simulator(pathname, reply) {
  const isModule = pathname === "/simulator.wasm";
  const file = join(SIMULATOR, isModule ? "simulator.wasm.gz" : "simulator.js");
  if (!existsSync(file)) return reply.writeHead(404).end();
  const headers = isModule ? { "content-type": "application/wasm", "content-encoding": "gzip" } : { "content-type": TYPES[".js"] };
  reply.writeHead(200, { ...headers, "content-security-policy": MAY_LOAD });
  createReadStream(file).pipe(reply);
}

/** Starts a server. `answer(request, reply)` may answer a request itself, and then returns true. */
export async function servePage({ socket, port = 0, answer = () => false }) {
  const server = http.createServer((request, reply) => {
    const { pathname } = new URL(request.url, "http://page");
    if (answer(request, reply)) return;
    if (pathname.startsWith("/v1/")) return pass(request, reply, socket);
    if (pathname.startsWith("/simulator.")) return void simulator(pathname, reply);
    const file = join(ASSETS, pathname === "/" ? "index.html" : pathname);
    if (!file.startsWith(ASSETS) || !existsSync(file)) return void reply.writeHead(404).end();
    reply.writeHead(200, { "content-type": TYPES[extname(file)] ?? "application/octet-stream", "content-security-policy": MAY_LOAD });
    createReadStream(file).pipe(reply);
  });
  await new Promise((done, failed) => server.once("error", failed).listen(port, "127.0.0.1", done));
  const url = `http://127.0.0.1:${server.address().port}/`;
  const end = () =>
    new Promise((done) => {
      server.close(done);
      server.closeAllConnections();
    });
  return { url, port: server.address().port, end };
}

function pass(request, reply, socketPath) {
  const onward = http.request({ socketPath, path: request.url, method: request.method, headers: request.headers }, (answer) => {
    reply.writeHead(answer.statusCode, answer.headers);
    answer.pipe(reply);
  });
  onward.on("error", () => reply.destroy());
  reply.on("close", () => onward.destroy());
  request.pipe(onward);
}

if (process.argv[1] === import.meta.filename) {
  const { url } = await servePage({ socket: process.argv[2], port: Number(process.argv[3] ?? 0) });
  console.log(url);
}
