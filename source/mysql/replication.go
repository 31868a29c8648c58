package mysql

import (
	"cmp"
	"context"
	"strings"
)

// replicaStatements show what the server copies from; each server knows some of them, and wants a
// privilege for it that SELECT does not bring.
var replicaStatements = []string{"SHOW REPLICA STATUS", "SHOW ALL SLAVES STATUS", "SHOW SLAVE STATUS"}

// replicaChannels shows the same on MySQL to a login with SELECT on that table, in its rows after
// the first. While performance_schema is off no row proves nothing. MariaDB has a table of this
// name that may be empty on a replica.
const replicaChannels = "SELECT @@GLOBAL.performance_schema AS told, NULL AS Channel_Name UNION ALL " +
	"SELECT NULL, CHANNEL_NAME FROM performance_schema.replication_connection_configuration WHERE HOST <> ''"

// replicaGrant says what shows whether a server copies from another one.
const replicaGrant = "with REPLICATION CLIENT, or SELECT on performance_schema.replication_connection_configuration, it may"

// queryReplication finds out whether the server copies from another, as far as the login may see
// it.
func (f *serverFacts) queryReplication(ctx context.Context, c conn) error {
	err := c.query(ctx, "SHOW GLOBAL STATUS WHERE Variable_name IN ('Slave_running', 'Slaves_running')", func(get func(string) string) {
		f.sawReplication = true
		if get("Value") != "OFF" && get("Value") != "0" {
			f.channel = channelRuns
		}
	})
	if err != nil && number(err) == 0 {
		return err
	}
	for _, statement := range replicaStatements {
		err := c.query(ctx, statement, f.noteChannel)
		switch {
		case err == nil:
			f.sawReplication = true
			return nil
		case number(err) == 0:
			return err
		}
	}
	if strings.Contains(f.variables["version"], "MariaDB") {
		return nil
	}
	err = c.query(ctx, replicaChannels, func(get func(string) string) {
		if told := get("told"); told != "" {
			f.sawReplication = f.sawReplication || on(told)
			return
		}
		f.noteChannel(get)
	})
	if err != nil && number(err) == 0 {
		return err
	}
	return nil
}

// channelState is what is known of the channels by which a server copies from others.
type channelState uint8

const (
	// channelNone: there is none, as far as the login may see.
	channelNone channelState = iota
	// channelStopped: none of them runs. Nothing tells a server that was promoted from a replica
	// that lags, so it counts as a replica.
	channelStopped
	// channelConfigured: there is one; whether it runs does not show.
	channelConfigured
	// channelRuns: one runs.
	channelRuns
)

// noteChannel notes a channel. Those of a group are there on its primary, too.
func (f *serverFacts) noteChannel(get func(string) string) {
	if strings.HasPrefix(get("Channel_Name"), "group_replication_") {
		return
	}
	receives := cmp.Or(get("Replica_IO_Running"), get("Slave_IO_Running"))
	applies := cmp.Or(get("Replica_SQL_Running"), get("Slave_SQL_Running"))
	state := channelRuns
	switch {
	case receives == "":
		state = channelConfigured
	case receives == "No" && applies == "No":
		state = channelStopped
	}
	f.channel = max(f.channel, state)
}

// stoppedChannel says that a server counts as a replica by a channel that may be a remainder. It
// returns "" for any other server.
func (f *serverFacts) stoppedChannel() string {
	switch f.channel {
	case channelStopped:
		return "has a replication channel that is stopped"
	case channelConfigured:
		return "has a replication channel (this login may not see whether it runs)"
	}
	return ""
}

// removeChannels is the statement that makes a promoted server a replica no more.
func (f *serverFacts) removeChannels() string {
	if strings.Contains(f.variables["version"], "MariaDB") {
		return "RESET SLAVE ALL;"
	}
	return "RESET REPLICA ALL;"
}
