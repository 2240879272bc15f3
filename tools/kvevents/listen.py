#!/usr/bin/env python3
"""Prints the KV events of a server, and checks that they have the form of vLLM's.

    pip install pyzmq msgspec
    weir serve --kv-events-config '{"enable_kv_cache_events": true, "replay_endpoint": "tcp://*:5558"}'
    python3 listen.py tcp://127.0.0.1:5557 [--replay tcp://127.0.0.1:5558] [--bind] [--batches N] [--quiet]

The classes have the fields of vllm/distributed/kv_events.py, and msgspec refuses what does not fit them. An index is kept as a router would,
which complains about blocks that are removed and were not stored, about parents that are not known, and about gaps.
"""

import argparse
import struct
import sys

import msgspec
import zmq

Hash = int | bytes


class Event(msgspec.Struct, tag=True, forbid_unknown_fields=True):
    pass


class BlockStored(Event):
    block_hashes: list[Hash]
    parent_block_hash: Hash | None
    token_ids: list[int]
    block_size: int
    lora_id: int | None
    medium: str | None
    lora_name: str | None
    extra_keys: list[tuple[str, ...] | None] | None = None
    group_idx: int | None = None
    kv_cache_spec_kind: str | None = None
    kv_cache_spec_sliding_window: int | None = None
    locality: str | None = None


class BlockRemoved(Event):
    block_hashes: list[Hash]
    medium: str | None
    group_idx: int | None = None
    locality: str | None = None


class AllBlocksCleared(Event):
    pass


class Batch(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    ts: float
    events: list[BlockStored | BlockRemoved | AllBlocksCleared]
    data_parallel_rank: int | None = None


class Index:
    """What is stored where, as far as the events tell."""

    def __init__(self):
        self.blocks, self.ever, self.faults, self.next = set(), set(), 0, None

    def fault(self, text):
        self.faults += 1
        print("FAULT:", text)

    def apply(self, seq, batch):
        if self.next is not None and seq != self.next:
            self.fault(f"batch {seq} comes where {self.next} is due")
        self.next = seq + 1
        for e in batch.events:
            if isinstance(e, AllBlocksCleared):
                self.blocks.clear()
                continue
            at = (e.medium, e.group_idx)
            if isinstance(e, BlockRemoved):
                for h in e.block_hashes:
                    if (at, h) not in self.blocks:
                        self.fault(f"{h} is removed from {at}, and was not there")
                    self.blocks.discard((at, h))
                continue
            if len(e.token_ids) != e.block_size * len(e.block_hashes):
                self.fault(f"{len(e.block_hashes)} blocks of {e.block_size} have {len(e.token_ids)} tokens")
            if e.parent_block_hash is not None and e.parent_block_hash not in self.ever:
                self.fault(f"parent {e.parent_block_hash} was never stored")
            self.blocks.update((at, h) for h in e.block_hashes)
            self.ever.update(e.block_hashes)


def replay(context, endpoint, first, take):
    """Asks for the batches from number first on."""
    s = context.socket(zmq.DEALER)
    s.connect(endpoint)
    s.send_multipart([b"", struct.pack(">Q", first)])
    while True:
        if not s.poll(10_000):
            sys.exit("there is no answer from " + endpoint)
        _, seq, payload = s.recv_multipart()
        number = struct.unpack(">q", seq)[0]
        if number == -1:
            break
        take(number, payload)
    s.close()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("endpoint")
    p.add_argument("--replay", help="begin with the batches that are kept")
    p.add_argument("--bind", action="store_true", help="listen at the endpoint, for a server that connects to it")
    p.add_argument("--topic", default="")
    p.add_argument("--batches", type=int, default=0, help="end after so many")
    p.add_argument("--quiet", action="store_true")
    args = p.parse_args()

    context, index = zmq.Context(), Index()
    count = 0

    def take(seq, payload):
        nonlocal count
        if index.next is not None and seq < index.next:
            return  # it was replayed
        batch = msgspec.msgpack.decode(payload, type=Batch)
        index.apply(seq, batch)
        count += 1
        if not args.quiet:
            for e in batch.events:
                print(seq, e)

    sub = context.socket(zmq.SUB)
    sub.setsockopt_string(zmq.SUBSCRIBE, args.topic)
    sub.setsockopt(zmq.HEARTBEAT_IVL, 1000)
    (sub.bind if args.bind else sub.connect)(args.endpoint)
    if args.replay:
        replay(context, args.replay, 0, take)
    while not args.batches or count < args.batches:
        _, seq, payload = sub.recv_multipart()
        take(struct.unpack(">Q", seq)[0], payload)
    print(f"{count} batches, {len(index.blocks)} blocks, {index.faults} faults")
    sys.exit(index.faults > 0)


if __name__ == "__main__":
    main()
