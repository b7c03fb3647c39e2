"""A Ray cluster on this machine whose nodes have addresses of their own: each is in a network namespace.

A bridge in another namespace connects them. All devices are created in these namespaces, never in that of the machine,
and removing the namespaces removes them.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PORT: Final = 6379
NETWORK: Final = "10.77.0"
START_SECONDS: Final = 120.0
DRIVER: Final = b"DRIVER_OF_THE_CLUSTER=1"
"""A variable in the environment of what is not part of Ray."""


class ClusterError(Exception):
    """The cluster does not do what it should."""


def explain_missing() -> str:
    """Return why there can be no cluster here, or an empty string."""
    if not sys.platform.startswith("linux") or shutil.which("ip") is None:
        return "network namespaces need Linux and iproute2"
    if os.geteuid():
        return "network namespaces need root"
    if shutil.which("ray") is None and not Path(sys.executable).with_name("ray").is_file():
        return "Ray is not installed"
    name = f"tfsm-{os.getpid()}-try"
    done = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if done.returncode:
        return f"network namespaces are not permitted: {done.stderr.strip()}"
    try:
        words = ["ip", "netns", "exec", name, "ip", "link", "add", "br0", "type", "bridge"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        return f"bridges are not permitted: {done.stderr.strip()}" if done.returncode else ""
    finally:
        subprocess.run(["ip", "netns", "del", name], check=False)


def _run(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ClusterError(f"{' '.join(words)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


@dataclass
class Node:
    """A machine of the cluster.

    Attributes:
        number: its number, from 1; the first is the head.
        namespace: its network namespace.
        process: what runs Ray; None if it is off.
    """

    number: int
    namespace: str
    process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """Its address."""
        return f"{NETWORK}.{self.number}"

    def inside(self, *words: str) -> list[str]:
        """Return a command that runs in its network."""
        return ["ip", "netns", "exec", self.namespace, *words]

    def processes(self) -> list[int]:
        """Return all processes in its network."""
        return [int(word) for word in _run("ip", "netns", "pids", self.namespace).split()]


@dataclass
class Cluster:
    """Three nodes, a bridge, and a folder for Ray.

    Args:
        python_path: what the nodes have on Python's path.
        variables: more environment variables of the nodes.
        cpus: CPUs that each node claims to have.
        head_cpus: those of the head, if they differ.
        count: number of nodes.
    """

    python_path: list[Path]
    variables: Mapping[str, str] = field(default_factory=dict)
    cpus: int = 1
    head_cpus: int | None = None
    count: int = 3

    def __post_init__(self) -> None:
        self._name = f"tfsm-{os.getpid()}-{secrets.token_hex(2)}"
        # Short, since the names of sockets are limited.
        self._folder = Path(tempfile.mkdtemp(prefix="tfsm-ray-"))
        self._token = self._folder / "token"
        self._token.write_text(secrets.token_hex(32))
        self._bridge = f"{self._name}-br"
        self._delays: list[subprocess.Popen[bytes]] = []
        self.nodes = [Node(number, f"{self._name}-{number}") for number in range(1, self.count + 1)]

    def __enter__(self) -> Cluster:
        try:
            self._connect()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def head(self) -> Node:
        """The first node."""
        return self.nodes[0]

    @property
    def address(self) -> str:
        """Where Ray listens."""
        return f"{self.head.address}:{PORT}"

    @property
    def driver_variables(self) -> dict[str, str]:
        """The environment variables of a command that uses the cluster from the head."""
        name, _, value = DRIVER.decode().partition("=")
        return self.token_variables | {name: value, "RAY_TMPDIR": str(self._folder)}

    @property
    def token_variables(self) -> dict[str, str]:
        """The environment variables of those who may join."""
        return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(self._token)}

    def _connect(self) -> None:
        for namespace in (self._bridge, *(node.namespace for node in self.nodes)):
            _run("ip", "netns", "add", namespace)
        bridge = ("ip", "netns", "exec", self._bridge, "ip", "link")
        _run(*bridge, "add", "br0", "type", "bridge")
        _run(*bridge, "set", "br0", "up")
        for node in self.nodes:
            port = f"port{node.number}"
            _run(*bridge, "add", port, "type", "veth", "peer", "name", "eth0", "netns", node.namespace)
            _run(*bridge, "set", port, "master", "br0", "up")
            _run(*node.inside("ip", "addr", "add", f"{node.address}/24", "dev", "eth0"))
            for device in ("lo", "eth0"):  # the namespace's own loopback device
                _run(*node.inside("ip", "link", "set", device, "up"))
            _run(*node.inside(sys.executable, str(Path(__file__).with_name("links.py")), "plain", "eth0"))

    def cut(self, node: Node) -> None:
        """Take the link of a node down."""
        _run("ip", "netns", "exec", self._bridge, "ip", "link", "set", f"port{node.number}", "down")

    def reconnect(self, node: Node) -> None:
        """Take the link of a node up again."""
        _run("ip", "netns", "exec", self._bridge, "ip", "link", "set", f"port{node.number}", "up")

    def delay(self, node: Node, seconds: float) -> None:
        """Delay all that goes to and from a node: its port leaves the bridge, and a process forwards the frames."""
        inside = ("ip", "netns", "exec", self._bridge)
        port, other = f"port{node.number}", f"slow{node.number}"
        _run(*inside, "ip", "link", "set", port, "nomaster")
        _run(*inside, "ip", "link", "add", other, "type", "veth", "peer", "name", f"{other}b")
        _run(*inside, "ip", "link", "set", f"{other}b", "master", "br0", "up")
        _run(*inside, "ip", "link", "set", other, "up")
        script = str(Path(__file__).with_name("links.py"))
        self._delays.append(subprocess.Popen([*inside, sys.executable, script, "delay", port, other, str(seconds)]))

    def round_trip(self, node: Node) -> float:
        """Return the seconds that a packet takes from the head to a node and back."""
        script = (
            "import socket, sys, time\nstart = time.monotonic()\n"
            "try: socket.create_connection((sys.argv[1], 9), 9)\n"
            "except ConnectionRefusedError: print(time.monotonic() - start)"
        )
        return float(_run(*self.head.inside(sys.executable, "-c", script, node.address)))

    def start(self, *nodes: Node, replaced: Mapping[Path, Path] | None = None, wait: bool = True) -> None:
        """Start Ray on nodes that are off; the head first.

        Args:
            nodes: the nodes; all by default.
            replaced: by folder, another one that these nodes have in its place.
            wait: whether to wait until they have joined.
        """
        for node in sorted(nodes or self.nodes, key=lambda node: node.number):
            self._start(node, replaced or {})
            if node is self.head:
                self._wait_for_head()
            elif wait:
                self.wait_for(node)

    def _start(self, node: Node, replaced: Mapping[Path, Path]) -> None:
        ray = Path(sys.executable).with_name("ray")
        cpus = self.head_cpus if node is self.head and self.head_cpus is not None else self.cpus
        words = [str(ray), "start", "--block", "--disable-usage-stats", "--num-cpus", str(cpus)]
        words += ["--node-ip-address", node.address, "--object-store-memory", str(2**27)]
        if node is self.head:
            words += ["--head", "--port", str(PORT), "--include-dashboard", "false", "--temp-dir", str(self._folder)]
        else:
            words += ["--address", self.address]
        # Ray enters the mount namespace that `ip netns exec` made, so that no other node sees these mounts.
        mounts = [f"mount --bind '{source}' '{target}'" for target, source in replaced.items()]
        script = " && ".join([*mounts, 'exec "$@"'])
        node.process = subprocess.Popen(
            node.inside("sh", "-c", script, "sh", *words),
            env=self.environ(),
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            stdout=(self._folder / f"node-{node.number}.log").open("ab"),
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def environ(self) -> dict[str, str]:
        """Return the environment of the nodes."""
        inherited = {
            name: text for name, text in os.environ.items() if not name.startswith(("RAY_", "TFSM_", "FRAGILE"))
        }
        path = os.pathsep.join(map(str, [*self.python_path, ROOT]))
        variables = {"PYTHONPATH": path, "RAY_worker_niceness": "0", "TF_CPP_MIN_LOG_LEVEL": "3"}
        # Its notes for other commands stay apart from those of a Ray of the user; and a busy machine takes its time.
        variables |= {"RAY_TMPDIR": str(self._folder), "RAY_raylet_start_wait_time_s": "120"}
        return inherited | variables | self.token_variables | dict(self.variables)

    def _wait_for_head(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        script = f"import socket; socket.create_connection(('{self.head.address}', {PORT}), 1)"
        while subprocess.run(
            self.head.inside(sys.executable, "-c", script), capture_output=True, check=False
        ).returncode:
            self._check(self.head, deadline)

    def wait_for(self, *nodes: Node) -> None:
        """Wait until nodes have joined."""
        deadline = time.monotonic() + START_SECONDS
        wanted = {node.address for node in nodes}
        while not wanted <= self.list_alive():
            for node in nodes:
                self._check(node, deadline)

    def _check(self, node: Node, deadline: float) -> None:
        log = (self._folder / f"node-{node.number}.log").read_text(errors="replace")
        if node.process is not None and node.process.poll() is not None:
            raise ClusterError(f"node {node.number} ended: {log[-2000:]}")
        if time.monotonic() > deadline:
            raise ClusterError(f"node {node.number} does not start: {log[-2000:]}")
        time.sleep(0.5)

    def heal(self) -> None:
        """Start the nodes that are off, or that Ray has given up, and take all links up."""
        for node in self.nodes:
            self.reconnect(node)
        if self.head.process is None:
            for node in self.nodes[1:]:
                self.kill(node)
        lost = [node for node in self.nodes if node.process is None or node.process.poll() is not None]
        lost += [node for node in self.nodes if node not in lost and node.address not in self.list_alive()]
        for node in lost:
            self.kill(node)
        if lost:
            self.start(*lost)

    def list_alive(self) -> set[str]:
        """Return the addresses of the nodes that Ray believes to be alive."""
        script = (
            "from ray._raylet import GcsClient; import sys\n"
            "nodes = GcsClient(address=sys.argv[1]).get_all_node_info(timeout=10).values()\n"
            "print(*(node.node_manager_address for node in nodes if node.state == 0))"
        )
        words = self.head.inside(sys.executable, "-c", script, self.address)
        done = subprocess.run(words, capture_output=True, text=True, check=False, env=self.environ())
        return set(done.stdout.split())

    def kill(self, node: Node) -> None:
        """Kill all of Ray on a node, as a loss of power would; other processes in its network stay."""
        if node.process is None:
            return
        for number in node.processes():
            with contextlib.suppress(OSError):
                if DRIVER not in Path(f"/proc/{number}/environ").read_bytes().split(b"\0"):
                    os.kill(number, signal.SIGKILL)
        node.process.wait()
        node.process = None

    def close(self) -> None:
        """End everything in the namespaces, and remove them."""
        for node in self.nodes:
            with contextlib.suppress(ClusterError):
                self.kill(node)
        for process in self._delays:
            process.kill()
            process.wait()
        for namespace in (self._bridge, *(node.namespace for node in self.nodes)):
            with contextlib.suppress(ClusterError):
                for number in map(int, _run("ip", "netns", "pids", namespace).split()):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(number, signal.SIGKILL)
            subprocess.run(["ip", "netns", "del", namespace], capture_output=True, check=False)
        shutil.rmtree(self._folder, ignore_errors=True)


@contextmanager
def running_cluster(cluster: Cluster, *nodes: Node) -> Iterator[Cluster]:
    """Start nodes, all by default, and end them."""
    with cluster:
        cluster.start(*nodes)
        yield cluster
