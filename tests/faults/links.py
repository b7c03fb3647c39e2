"""Change links within a network namespace: run as a script in it.

links.py plain DEVICE                  lets the kernel compute checksums and divide what it sends into packets
links.py delay DEVICE DEVICE SECONDS   forwards frames between two devices, later
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from queue import SimpleQueue

_SIOCETHTOOL = 0x8946
_OFFLOADS = (0x17, 0x1F, 0x25)
"""Checksums, segmentation of TCP, and segmentation in general, of `struct ethtool_value`."""
_ALL_PROTOCOLS = 3
_OUTGOING = 4


def check_namespace() -> None:
    """Refuse to work on the devices of the machine itself."""
    words = ["ip", "netns", "identify", str(os.getpid())]
    name = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    if not name.startswith("tfsm-"):
        sys.exit("not in a network namespace of the tests")


def make_plain(device: str) -> None:
    """Switch the offloads of a device off: a frame that is copied by hand must be complete."""
    import array
    import ctypes

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for command in _OFFLOADS:
            value = ctypes.create_string_buffer(struct.pack("II", command, 0))
            request = array.array("b", struct.pack("16sP", device.encode(), ctypes.addressof(value)))
            fcntl.ioctl(control, _SIOCETHTOOL, request)


def forward(source: socket.socket, target: socket.socket, seconds: float) -> None:
    """Receive frames, and send them later, in order."""
    waiting: SimpleQueue[tuple[float, bytes]] = SimpleQueue()

    def send() -> None:
        while True:
            due, frame = waiting.get()
            time.sleep(max(0.0, due - time.monotonic()))
            target.send(frame)

    threading.Thread(target=send, daemon=True).start()
    while True:
        frame, address = source.recvfrom(2**16)
        if address[2] != _OUTGOING:  # what was sent here is seen as well
            waiting.put((time.monotonic() + seconds, frame))


def main() -> None:
    """Do what the command line says."""
    check_namespace()
    if sys.argv[1] == "plain":
        make_plain(sys.argv[2])
        return
    ends = []
    for device in sys.argv[2:4]:
        end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL_PROTOCOLS))
        end.bind((device, 0))
        ends.append(end)
    threading.Thread(target=forward, args=(*ends[::-1], float(sys.argv[4])), daemon=True).start()
    forward(ends[0], ends[1], float(sys.argv[4]))


if __name__ == "__main__":
    main()
