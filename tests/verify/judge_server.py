"""A real HTTP server that speaks the form of chat completions, for the tests of the judge: right, slow, busy, talkative, led astray."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from prefkit.verify.judge_rubric import DEFAULT

Reply = tuple[int, dict[str, str], str]
Respond = Callable[[dict[str, Any]], Reply]


class Server:
    """An endpoint whose replies a test decides. asked: bodies of the requests; headers: theirs."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.respond: Respond = lambda body: marks(8)
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.asked.append(body | {"path": self.path})
                outer.headers.append(dict(self.headers))
                status, headers, text = outer.respond(body)
                data = text.encode()
                try:
                    self.send_response(status)
                    for name, value in headers.items():
                        self.send_header(name, value)
                    self.send_header("Content-Length", str(len(data)))
                    self.end_headers()
                    self.wfile.write(data)
                except OSError:
                    pass  # the other side did not wait

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def said(text: str, status: int = 200) -> Reply:
    return status, {}, json.dumps({"choices": [{"message": {"role": "assistant", "content": text}}]})


def marks(mark: float) -> Reply:
    return said(json.dumps({"reason": "so it is", "scores": dict.fromkeys(DEFAULT.names, mark)}))


def user_text(body: dict[str, Any]) -> str:
    return body["messages"][1]["content"]
