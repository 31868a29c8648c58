"""Prints records of Kafka as JSON, one a line, by aiokafka: brokers, count, topics."""
import asyncio
import json
import os
import sys

from aiokafka import AIOKafkaConsumer


async def main(brokers, count, topics):
    isolation = os.environ.get("ISOLATION_LEVEL", "read_uncommitted")
    consumer = AIOKafkaConsumer(
        *topics, bootstrap_servers=brokers, auto_offset_reset="earliest", enable_auto_commit=False, isolation_level=isolation
    )
    await consumer.start()
    try:
        while count > 0:
            record = await consumer.getone()
            headers = {name: value.decode() for name, value in record.headers}
            print(json.dumps({"topic": record.topic, "key": record.key.decode(), "id": headers["eiffel-id"], "value": record.value.decode()}))
            count -= 1
    finally:
        await consumer.stop()


asyncio.run(main(sys.argv[1], int(sys.argv[2]), sys.argv[3:]))
