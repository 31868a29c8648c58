// Package bench measures the built program on real servers: how long it takes for a backlog beside
// its parts, what it uses, how late messages are, what quiet tables cost, what the size of a table
// changes, and how other programs do. docs/performance.md has the figures and says what they are.
//
// Its benchmarks print the usual lines, with a unit for each figure, for benchstat. A process is
// one round: it starts its servers, makes the tables that the chosen measurements need, and makes
// each measurement once. TestHarness shows with tables of a few rows that the instrument works.
//
// # Commands
//
//	make bench                                          # half an hour on two cores, 12 GB of disk
//	make bench ARGS=-test.short                         # small tables: five minutes
//	make bench BENCH=Latency BEFORE=/path/to/a/former/bridge ROUNDS=6
//	make bench-micro                                    # no server; COUNT=10 BENCH=Append
//	make bench-large                                    # 20 minutes, 12 GB of disk
//	make bench-large BENCH='.*/rows=10{6,7}$' ROUNDS=3  # without the largest
//	make bench-peers ROUNDS=3                           # an hour on two cores
//	make bench-peers BENCH_JDBC_CONNECTOR=/path/to/jars # its jar, or a folder of jars
//	make bench-peers BENCH=Steady                       # 1,000 rows a second alone
//	make bench-peers BENCH='.*/bus=jetstream/program=(bridge|debezium-tuned)' ARGS=-test.short
//
// Compare with benchstat (golang.org/x/perf/cmd/benchstat):
//
//	benchstat bin/bench/Bridge-before.txt bin/bench/Bridge.txt
//	benchstat -ignore cpu,goarch docs/performance/bench.txt bin/bench/Bridge.txt
//
// make bench writes bin/bench/Bridge.txt. With BEFORE each round measures a former program and this
// one in turns. Leave the machine alone: others-% is the part that others used, and
// ARGS='-noise 10' measures again above 10 %, as make bench-peers does. To record a run, use at
// least ROUNDS=3, copy its file to docs/performance, and write the medians on docs/performance.md.
//
// make bench-peers fetches Debezium Server (782 MB, needs Java 21) and Kafka Connect through Maven.
// Bring a JDBC source connector yourself. Its control is a poller of SELECT … WHERE id > ?: a run
// in which it loses nothing shows nothing.
package bench
