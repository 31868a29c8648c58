// Package jetstream publishes to NATS JetStream: pipelined, and in order over any number of
// reconnects.
//
// # Terms
//
// A worker is the one way of this process to one JetStream stream; the batches of all shards for
// that stream go through it. A call is what one Publish has for one worker. A session is one
// connection from its start to its end, and a wire is what a worker uses of it: an inbox for
// answers. A series is an uninterrupted run of messages on one session. A fence is the condition
// under which the server stores a message. A suspect is a message of an ended fenced series that
// had no answer.
//
// # The way of a message
//
// Publish (sink.go) looks up the stream of each message (route.go) and gives each worker a call
// (call.go) with what is for its stream. The worker (worker.go, attend) begins each series with a
// look at the stream (begin) and sends what its calls have (series.go). Answers come by the wire
// (message.go) and are noted in the call; what has none is a suspect, of which the next begin finds
// out. Exactly once goes by claim.go, batcher.go and batch.go instead. message.go has headers, too,
// and limits.
//
// # Guarantees
//
// A message is acknowledged when JetStream has acknowledged it or, in a fenced series, a later
// message of that series, or when the stream was read and has it. JetStream acknowledges before it
// syncs its files, unless the server runs with sync_interval: always.
//
// However often the connection is lost, the server killed or a message refused: no message is lost.
// Messages of one bridge stream that have the same key and go to the same JetStream stream are
// stored in the order in which they were given, whatever their subjects. So is everything that one
// batch puts on a JetStream stream as long as series are fenced. The same message is stored once,
// if it is repeated within the stream's duplicate window (two minutes by default, Nats-Msg-Id being
// [sink.Message.DedupID]).
//
// # Why the order holds
//
// A series has up to 1,000 messages under way without an acknowledgement. Three things could put a
// later one before an earlier one: the server refuses the earlier one and takes the later one;
// bytes of a lost connection reach the server after what was sent again; a resend passes what is
// still under way. The fence shuts all three out. Each message of a series carries
//
//   - Nats-Expected-Last-Sequence: the sequence that the message before it gets, and
//   - Nats-Expected-Last-Msg-Id: the id of the message before it; the first of a series has
//     Nats-Expected-Stream instead.
//
// So a message is stored right after the one that was sent before it, or not at all, on whatever
// connection and however late it arrives. The sequence alone would not do: a message of somebody
// else in place of a refused one leaves the stream with just the sequence that the next one asks
// for. The server compares the sequence before it looks for duplicates, and the id after that
// (processJetStreamMsg in nats-server's server/stream.go); a duplicate is acknowledged without
// being stored, so it, too, shuts the fence for those after it. Two processes must not publish the
// same events to one stream at the same time: one's message in the sequence of the other's would
// open a fence.
//
// At the first refusal, lost connection or missing answer the series stops sending and waits for
// the answers that can still come. The next one begins with a look at the stream. What had no
// answer is stored if the stream has its id at the sequence behind the one that its fence names;
// and if one message is there, so are all before it. What is not found is sent again in order. A
// series begins with one message under way and doubles that with each round trip, so that a refusal
// that lasts costs one message a try.
//
// For the same reason the answer to a message of a fenced series, stored at its sequence,
// acknowledges all before it. Such a series asks for eight answers a window and one for the last
// message of a batch; the others cost an answer less on both sides.
//
// A session is never taken up again: the library's own reconnect would flush what was written
// during the outage. Logins and certificates are read afresh for each connection.
//
// # Without fences
//
// A message of somebody else shuts a fence as well. After each refusal the worker goes over to
// unfenced series, in which each message asks for an answer and at most one per key is under way on
// a stream: order per entity then needs no fence. Messages of different keys that are under way
// together may be stored in another order. Copies of a lost connection are dropped by their id, so
// the duplicate window should be at least 10 s. A longer outage can repeat what was under way; it
// cannot disorder it.
//
// Repeats are published unfenced, too: each would end a fenced series. Fences are taken up again
// when no repeat has come for a while, and 5 s after the last shut fence or message of somebody
// else.
//
// Streams with several replicas are published to unfenced, always: nats-server 2.15 compares the
// expected id only when a message that its leader has accepted is applied, and where that fails
// each replica stops the stream until servers are restarted (applyStreamMsgOp and monitorStream in
// server/jetstream_cluster.go). A stream that is given replicas while it is published to gets no
// fences after at most 30 s.
//
// # Exactly once
//
// With Options.Claim the sink publishes in atomic batches, one after the other, and is a
// sink.Transactional (batcher.go, batch.go). A claim is a message on a subject of the stream that
// says which process may publish; each batch is conditional on the claim of its process being the
// last one there. Batches have no message ids: repeats are stored. docs/decisions/021 has what the
// server checks where, what is refused, and what is an unknown outcome.
//
// # Faults
//
// A refusal holds up the calls it belongs to, with a back-off of 50 ms to 2 s, while other calls go
// on. A missing stream, a full one and a missing right are such faults. Refused for good are
// messages larger than max_payload of the server or max_msg_size of the stream, with their headers,
// and destinations that are no subject. A peer that does not answer is given up after 5 s with
// messages under way and after 8 s without.
//
// A stream that is deleted and created again, or that ends earlier than it did, takes what is
// published like any other: its end breaks the fence, and the next series begins with a look at it.
// Outcomes tell the creation time that a message was sent to, once that was noticed, which takes up
// to 30 s in unfenced series on a stream that others have filled up again.
//
// # Rights
//
// Beside its subjects the user needs to publish on $JS.API.STREAM.INFO.<stream> and
// $JS.API.STREAM.MSG.GET.<stream> (with allow_direct $JS.API.DIRECT.GET.<stream> instead), on
// $JS.API.STREAM.NAMES where no stream is configured, on $JS.API.STREAM.CREATE.<stream> where it is
// to be created, on Options.Claim where that is set, and to subscribe to _INBOX.>. To read it back
// the user needs $JS.API.CONSUMER.> too.
package jetstream
