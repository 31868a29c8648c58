// Package standby has one of several processes of a configuration work, while the others wait
// (decision 22).
//
// A process is a [Member] of a group. Its [Elector] asks the bus who works: the members of a
// consumer group on Kafka, a [Lease] on JetStream. A member that is elected works until it leaves,
// or until it cannot show the bus in time that it lives: then Run returns [ErrLost], and the
// process has to end.
//
// Clocks decide about liveness alone: no clock of two hosts is compared, and two members may work
// at the same time for a moment. What the former one publishes then is fenced or healed as that of
// any former process is (decisions 17 and 20).
//
// To add a bus: implement [Elector], or [Register] for a [Lease], and run the suite of
// standbytest.
package standby
