"""A server with OpenAI's interface on loopback that says what a test wants; it stops by itself after a minute."""

import json
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def completion(text: str, finish: str = "stop", tokens_out: int = 2, **message: Any) -> dict[str, Any]:
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text, **message}}
    usage = {"prompt_tokens": 5, "completion_tokens": tokens_out, "total_tokens": 5 + tokens_out}
    return {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}


class LLMServer:
    """Used in a `with`.

    `say` gets a request and gives the text of the answer, a whole answer (a dict), or a status, headers and a body
    (bytes); None breaks the connection in the middle of the body.
    """

    def __init__(self, say: Callable[[dict[str, Any]], Any] = lambda request: question(request), lifetime: float = 60):
        self.requests: list[dict[str, Any]] = []
        self.headers: list[Any] = []
        self.say, self._lifetime = say, lifetime

    def __enter__(self) -> "LLMServer":
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.requests.append(request)
                outer.headers.append(self.headers)
                said = outer.say(request)
                said = completion(said) if isinstance(said, str) else said
                whole = (200, {}, json.dumps(said).encode()) if isinstance(said, dict) else said
                status, headers, body = whole or (200, {}, b'{"choices": [')
                self.send_response(status)
                for name, value in {"Content-Type": "application/json", **headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body) + (0 if whole else 100)))
                self.end_headers()
                self.wfile.write(body)
                self.close_connection = not whole

            def log_message(self, *_):
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads, request_queue_size = True, 256

            def handle_error(self, *_):  # a client that did not wait
                pass

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        self._timer = threading.Timer(self._lifetime, self._server.shutdown)
        self._timer.daemon = True
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._server.shutdown()
        self._server.server_close()


def question(request: dict[str, Any]) -> str:
    """The last message of a request, upper case: an answer that shows which prompt it belongs to."""
    return request["messages"][-1]["content"].upper()


def slow(seconds: float) -> Callable[[dict[str, Any]], str]:
    def say(request: dict[str, Any]) -> str:
        time.sleep(seconds)
        return question(request)

    return say


if __name__ == "__main__":  # in a process of its own: answers after so many seconds, until its input is closed
    with LLMServer(slow(float(sys.argv[1])), lifetime=300) as alone:
        print(alone.url, flush=True)
        sys.stdin.read()
