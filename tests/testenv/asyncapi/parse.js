// Reads an AsyncAPI document with the parser of its makers and prints what it says about it as JSON, one a line: severity 0 is an
// error, 1 a warning. Arguments: folder of its modules; the document is on standard input.
const [modules] = process.argv.slice(2);
const { Parser } = require(modules + "/@asyncapi/parser");

new Parser().parse(require("fs").readFileSync(0, "utf8")).then(({ document, diagnostics }) => {
  for (const { severity, code, path, message } of diagnostics) {
    console.log(JSON.stringify({ severity, code, path: path.join("/"), message }));
  }
  if (!document && diagnostics.length === 0) throw new Error("no document");
});
