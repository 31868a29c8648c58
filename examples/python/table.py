"""Keeps a copy of a capability stream in memory, and prints it once it has caught up.

    python table.py orders kafka localhost:9092 orders      # the topics
    python table.py orders nats nats://localhost:4222 'eiffel.*.*.*.bridge'
"""
import asyncio, json, sys

class Table:
    def __init__(self, stream, domain="bridge"):
        self.stream, self.domain = stream, domain
        self.rows, self.last = {}, {}  # by key: the columns; where its last message is, also of a deleted entity

    def apply(self, tp, offset, key, value, headers):
        before = self.last.get(key)
        if value is None and "bridge-stream" not in headers:  # a tombstone: it follows the Deleted event in its partition
            if before and before[0] == tp and before[1] < offset: self.rows.pop(key, None)
            return
        if headers.get("bridge-stream") != self.stream or headers.get("bridge-domain") != self.domain: return
        if headers.get("eiffel-type") == "BridgeDeadLetterEvent": return  # it stands for an event that the bus refused
        state, _, of_nats = headers["bridge-state"].partition(" k=")
        form, epoch, seq, _, digest = state.split(" ")[:5]
        assert form == "1", "written by a newer bridge"
        stamp, key = (int(epoch, 16), int(seq, 16)), of_nats[:-1] or key
        if before := self.last.get(key):
            # Within a partition the higher offset is newer, across partitions the higher (epoch, seq).
            if (offset <= before[1]) if tp == before[0] else (stamp < before[2]): return
            stamp = max(stamp, before[2])
        self.last[key] = (tp, offset, stamp)
        if value is None or digest in ("t", "x"): self.rows.pop(key, None)
        else: self.rows[key] = columns(json.loads(value), headers)

def columns(body, headers):  # by EVENT_FORMAT
    if headers.get("content-type") == "application/cloudevents+json": return body["data"]["data"]
    return body if "eiffel-time" in headers else body["data"]

def kafka(table, brokers, *topics):
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
    consumer = Consumer({"bootstrap.servers": brokers, "group.id": "none", "enable.auto.commit": False, "isolation.level": "read_committed"})
    partitions = [TopicPartition(t, p, OFFSET_BEGINNING) for t in topics for p in consumer.list_topics(t).topics[t].partitions]
    ends = {(p.topic, p.partition): high for p in partitions for low, high in [consumer.get_watermark_offsets(p)] if high > low}
    consumer.assign(partitions)
    while ends:
        m = consumer.poll(0.1)
        if m is None:  # positions pass over aborted and compacted records, too
            ends = {tp: end for tp, end in ends.items() if consumer.position([TopicPartition(*tp)])[0].offset < end}
        elif not m.error():  # errors heal: librdkafka retries
            tp = m.topic(), m.partition()
            if m.offset() + 1 >= ends.get(tp, 0): ends.pop(tp, None)
            table.apply(tp, m.offset(), (m.key() or b"").decode(), m.value(), {k: v.decode() for k, v in m.headers() or []})

async def nats(table, url, subject):
    import nats
    from nats.js.errors import NotFoundError
    connection = await nats.connect(url, max_reconnect_attempts=-1)
    js = connection.jetstream()
    stream = await js.find_stream_name_by_subject(subject)
    try: end = (await js.get_last_msg(stream, subject)).seq
    except NotFoundError: return await connection.close()
    follow = await js.subscribe(subject, ordered_consumer=True)
    async for m in follow.messages:
        table.apply(stream, m.metadata.sequence.stream, None, m.data, m.headers or {})
        if m.metadata.sequence.stream >= end: break
    await connection.close()

if __name__ == "__main__":
    table = Table(sys.argv[1])
    if sys.argv[2] == "kafka": kafka(table, *sys.argv[3:])
    else: asyncio.run(nats(table, *sys.argv[3:]))
    json.dump(table.rows, sys.stdout)
