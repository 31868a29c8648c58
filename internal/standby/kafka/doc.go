// Package kafka elects by a consumer group: its coordinator knows which members live, and one of
// them, the leader of the group, says who works. The group has no topic and commits no offset.
//
// The one that works keeps the work when others join or leave. Where nobody works, a member goes
// first that is ready.
//
// A member that was not heard of for the timeout is removed by the coordinator. While members join
// one is removed already after half of it: a former one may then work for some seconds beside its
// successor.
package kafka
