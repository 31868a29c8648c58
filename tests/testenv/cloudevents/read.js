// Reads CloudEvents in structured mode with the SDK of their makers, as messages of Kafka and of HTTP, and prints each as JSON, one a
// line. Arguments: folder of its modules; the values are on standard input, one a line.
const [modules] = process.argv.slice(2);
const { HTTP, Kafka } = require(modules + "/cloudevents");

for (const value of require("fs").readFileSync(0, "utf8").split("\n")) {
  if (value === "") continue;
  const headers = { "content-type": "application/cloudevents+json" };
  const event = Kafka.toEvent({ headers, value, body: value });
  event.validate();
  if (HTTP.toEvent({ headers, body: value }).id !== event.id) throw new Error("the id depends on the transport");
  const { id, type, source, specversion, subject, time, datacontenttype, data } = event;
  console.log(JSON.stringify({ id, type, source, specversion, subject, time, datacontenttype, document: data.meta.id }));
}
