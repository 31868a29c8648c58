"""Prints records of Kafka as JSON, one a line, by confluent-kafka: brokers, count, topics."""
import json
import os
import sys
import uuid

from confluent_kafka import Consumer

brokers, count, topics = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
# librdkafka reads committed messages by default.
isolation = os.environ.get("ISOLATION_LEVEL", "read_committed")
consumer = Consumer({"bootstrap.servers": brokers, "group.id": str(uuid.uuid4()), "auto.offset.reset": "earliest", "isolation.level": isolation})
consumer.subscribe(topics)
while count > 0:
    record = consumer.poll(10)
    if record is None:
        continue
    if record.error():
        sys.exit(str(record.error()))
    headers = {name: value.decode() for name, value in record.headers() or []}
    print(json.dumps({"topic": record.topic(), "key": record.key().decode(), "id": headers["eiffel-id"], "value": record.value().decode()}))
    count -= 1
consumer.close()
