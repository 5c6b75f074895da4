"""Messages and tensors between the Judge and the Worker. Data only: no pickle, no code, either way.

`messages` says what can be said, `channel` moves it over a socketpair, `tensors` turns tensors into bytes and
back. Both sides import this package; the Judge treats whatever comes out of it as hostile but well formed.
"""

from warpgrade.wire.channel import Channel, PeerClosed, TimedOut, WireError

__all__ = ["Channel", "PeerClosed", "TimedOut", "WireError"]
