"""Prints records of Kafka as JSON, one a line, by kafka-python: brokers, count, topics."""
import json
import os
import sys

from kafka import KafkaConsumer

brokers, count, topics = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
isolation = os.environ.get("ISOLATION_LEVEL", "read_uncommitted")
consumer = KafkaConsumer(
    *topics, bootstrap_servers=brokers.split(","), auto_offset_reset="earliest", enable_auto_commit=False, isolation_level=isolation
)
for record in consumer:
    headers = {name: value.decode() for name, value in record.headers}
    print(json.dumps({"topic": record.topic, "key": record.key.decode(), "id": headers["eiffel-id"], "value": record.value.decode()}))
    count -= 1
    if count == 0:
        break
consumer.close()
