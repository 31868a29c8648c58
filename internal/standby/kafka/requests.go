package kafka

import (
	"github.com/segmentio/kafka-go/protocol"
)

// The requests of a group, in versions without tags: kafka-go writes wrong bytes for later ones of
// Heartbeat and SyncGroup, and sends Heartbeat to any broker. Brokers from 2.3 to 4.x take these.
type (
	joinRequest struct {
		GroupID            string         `kafka:"min=v2,max=v5"`
		SessionTimeoutMS   int32          `kafka:"min=v2,max=v5"`
		RebalanceTimeoutMS int32          `kafka:"min=v2,max=v5"`
		MemberID           string         `kafka:"min=v2,max=v5"`
		GroupInstanceID    string         `kafka:"min=v5,max=v5,nullable"`
		ProtocolType       string         `kafka:"min=v2,max=v5"`
		Protocols          []joinProtocol `kafka:"min=v2,max=v5"`
	}
	joinProtocol struct {
		Name     string `kafka:"min=v2,max=v5"`
		Metadata []byte `kafka:"min=v2,max=v5"`
	}
	joinResponse struct {
		ThrottleTimeMS int32        `kafka:"min=v2,max=v5"`
		ErrorCode      int16        `kafka:"min=v2,max=v5"`
		GenerationID   int32        `kafka:"min=v2,max=v5"`
		ProtocolName   string       `kafka:"min=v2,max=v5"`
		LeaderID       string       `kafka:"min=v2,max=v5"`
		MemberID       string       `kafka:"min=v2,max=v5"`
		Members        []joinMember `kafka:"min=v2,max=v5"`
	}
	joinMember struct {
		MemberID        string `kafka:"min=v2,max=v5"`
		GroupInstanceID string `kafka:"min=v5,max=v5,nullable"`
		Metadata        []byte `kafka:"min=v2,max=v5"`
	}

	syncRequest struct {
		GroupID         string           `kafka:"min=v1,max=v3"`
		GenerationID    int32            `kafka:"min=v1,max=v3"`
		MemberID        string           `kafka:"min=v1,max=v3"`
		GroupInstanceID string           `kafka:"min=v3,max=v3,nullable"`
		Assignments     []syncAssignment `kafka:"min=v1,max=v3"`
	}
	syncAssignment struct {
		MemberID   string `kafka:"min=v1,max=v3"`
		Assignment []byte `kafka:"min=v1,max=v3"`
	}
	syncResponse struct {
		ThrottleTimeMS int32  `kafka:"min=v1,max=v3"`
		ErrorCode      int16  `kafka:"min=v1,max=v3"`
		Assignment     []byte `kafka:"min=v1,max=v3"`
	}

	beatRequest struct {
		GroupID         string `kafka:"min=v1,max=v3"`
		GenerationID    int32  `kafka:"min=v1,max=v3"`
		MemberID        string `kafka:"min=v1,max=v3"`
		GroupInstanceID string `kafka:"min=v3,max=v3,nullable"`
	}
	beatResponse struct {
		ThrottleTimeMS int32 `kafka:"min=v1,max=v3"`
		ErrorCode      int16 `kafka:"min=v1,max=v3"`
	}

	leaveRequest struct {
		GroupID  string `kafka:"min=v1,max=v2"`
		MemberID string `kafka:"min=v1,max=v2"`
	}
	leaveResponse struct {
		ThrottleTimeMS int32 `kafka:"min=v1,max=v2"`
		ErrorCode      int16 `kafka:"min=v1,max=v2"`
	}
)

func (*joinRequest) ApiKey() protocol.ApiKey   { return protocol.JoinGroup }
func (*joinResponse) ApiKey() protocol.ApiKey  { return protocol.JoinGroup }
func (*syncRequest) ApiKey() protocol.ApiKey   { return protocol.SyncGroup }
func (*syncResponse) ApiKey() protocol.ApiKey  { return protocol.SyncGroup }
func (*beatRequest) ApiKey() protocol.ApiKey   { return protocol.Heartbeat }
func (*beatResponse) ApiKey() protocol.ApiKey  { return protocol.Heartbeat }
func (*leaveRequest) ApiKey() protocol.ApiKey  { return protocol.LeaveGroup }
func (*leaveResponse) ApiKey() protocol.ApiKey { return protocol.LeaveGroup }

// Group implements protocol.GroupMessage: the request goes to the coordinator.
func (r *joinRequest) Group() string { return r.GroupID }

// Group implements protocol.GroupMessage.
func (r *syncRequest) Group() string { return r.GroupID }

// Group implements protocol.GroupMessage.
func (r *beatRequest) Group() string { return r.GroupID }

// Group implements protocol.GroupMessage.
func (r *leaveRequest) Group() string { return r.GroupID }

// Nothing else of this program speaks for a group: these types stand in for those of kafka-go.
func init() {
	protocol.Register(&joinRequest{}, &joinResponse{})
	protocol.Register(&syncRequest{}, &syncResponse{})
	protocol.Register(&beatRequest{}, &beatResponse{})
	protocol.Register(&leaveRequest{}, &leaveResponse{})
}
