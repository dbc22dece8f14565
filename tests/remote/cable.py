"""A cable between the two sides of the protocol that is pulled, or that damages what it carries.

python cable.py cut COUNT COMMAND...      after so many frames from the agent
python cable.py stop COUNT COMMAND...     the same, and nobody notices
python cable.py delay SEED COMMAND...     by up to a tenth of a second, in pieces
python cable.py damage SEED COMMAND...    one of some bytes of what the agent says, at random
python cable.py forge SEED COMMAND...     payloads, whose checksums are right again
"""

import os
import random
import struct
import subprocess
import sys
import threading
import time
import zlib

how, number, *command = sys.argv[1:]
draw = random.Random(int(number))
agent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)


def forward() -> None:
    while data := os.read(0, 1 << 16):
        agent.stdin.write(data)
    agent.stdin.close()


def say(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]


def whole(size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = agent.stdout.read(size - len(data))
        if not more:
            sys.exit(0)
        data += more
    return data


threading.Thread(target=forward, daemon=True).start()
frames = 0
while how not in ("cut", "stop") or frames < int(number):
    header = whole(32)
    payload = whole(struct.unpack_from("<I", header, 16)[0])
    frames += 1
    if how == "forge" and payload and draw.random() < 0.4:
        changed = bytearray(payload)
        changed[draw.randrange(len(changed))] = draw.randrange(256)
        end = draw.randrange(len(changed) + 1) if draw.random() < 0.3 else len(changed)
        payload = bytes(changed[:end])
        head = header[:16] + struct.pack("<I", len(payload)) + header[20:24]
        head += struct.pack("<I", zlib.crc32(payload))
        header = head + struct.pack("<I", zlib.crc32(head))
    frame = bytearray(header + payload)
    if how == "damage" and draw.random() < 0.2:
        frame[draw.randrange(len(frame))] ^= 1 << draw.randrange(8)
        if draw.random() < 0.3:
            del frame[draw.randrange(len(frame)) :]
            say(frame)
            break
    if how == "delay":
        half = draw.randrange(len(frame))
        time.sleep(draw.random() / 20)
        say(frame[:half])
        time.sleep(draw.random() / 20)
        del frame[:half]
    say(frame)
while how == "stop":
    time.sleep(1)
agent.kill()
