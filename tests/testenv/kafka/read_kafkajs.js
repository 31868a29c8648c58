// Prints records of Kafka as JSON, one a line, by KafkaJS: folder of its modules, brokers, count, topics.
const [modules, brokers, count, ...topics] = process.argv.slice(2);
const { Kafka, CompressionTypes, CompressionCodecs, logLevel } = require(modules + "/kafkajs");
if (process.env.WITH_SNAPPY) {
  CompressionCodecs[CompressionTypes.Snappy] = require(modules + "/kafkajs-snappy");
}

// It reads committed messages by default.
const readUncommitted = process.env.ISOLATION_LEVEL === "read_uncommitted";
const kafka = new Kafka({ brokers: brokers.split(","), logLevel: logLevel.ERROR });
const consumer = kafka.consumer({ groupId: "kafkajs-" + process.pid + "-" + Date.now(), readUncommitted });
consumer.on(consumer.events.CRASH, (event) => {
  // It starts again by itself, as after the error of a broker that is still loading groups.
  if (event.payload.restart) return;
  console.error(event.payload.error);
  process.exit(1);
});

async function main() {
  await consumer.connect();
  await consumer.subscribe({ topics, fromBeginning: true });
  let left = Number(count);
  await consumer.run({
    eachMessage: async ({ topic, message }) => {
      if (left-- <= 0) return;
      const id = message.headers["eiffel-id"].toString();
      console.log(JSON.stringify({ topic, key: message.key.toString(), id, value: message.value.toString() }));
      if (left === 0) process.exit(0);
    },
  });
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
