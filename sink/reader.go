package sink

import "example.org/bridge/client/bus"

// What a message on a bus looks like and how it is read is the client's, which consumers import,
// too: see [bus].
type (
	Reader       = bus.Reader
	TP           = bus.TP
	Span         = bus.Span
	Stored       = bus.Stored
	Header       = bus.Header
	Fields       = bus.Fields
	State        = bus.State
	StateKind    = bus.StateKind
	Format       = bus.Format
	ExpiredError = bus.ExpiredError
	Fault        = bus.Fault
)

// Errors of a [Reader]; ErrClosed is also that of a closed [Sink].
var (
	ErrClosed     = bus.ErrClosed
	ErrBehind     = bus.ErrBehind
	ErrUnreadable = bus.ErrUnreadable
	ErrGone       = bus.ErrGone
	ErrExpired    = bus.ErrExpired
	ErrHeldUp     = bus.ErrHeldUp
	ErrNewerForm  = bus.ErrNewerForm
)

// NoEnd is a Span.To that is never reached.
const NoEnd = bus.NoEnd

// The kinds of a state and the formats of a value.
const (
	StateLive         = bus.StateLive
	StateTombstone    = bus.StateTombstone
	StateAbsent       = bus.StateAbsent
	FormatEiffel      = bus.FormatEiffel
	FormatCloudEvents = bus.FormatCloudEvents
	FormatRow         = bus.FormatRow
	FormatPayload     = bus.FormatPayload
)

// The headers of messages and some of their values.
const (
	HeaderContentType = bus.HeaderContentType
	HeaderID          = bus.HeaderID
	HeaderType        = bus.HeaderType
	HeaderVersion     = bus.HeaderVersion
	HeaderSchema      = bus.HeaderSchema
	HeaderDomain      = bus.HeaderDomain
	HeaderStream      = bus.HeaderStream
	HeaderShard       = bus.HeaderShard
	HeaderRowID       = bus.HeaderRowID
	HeaderOrigin      = bus.HeaderOrigin
	HeaderPublishedAt = bus.HeaderPublishedAt
	HeaderForm        = bus.HeaderForm
	HeaderServer      = bus.HeaderServer
	HeaderState       = bus.HeaderState
	HeaderFormat      = bus.HeaderFormat
	PayloadFormat     = bus.PayloadFormat
	HeaderTime        = bus.HeaderTime
	HeaderPrevious    = bus.HeaderPrevious
	HeaderReason      = bus.HeaderReason
	HeaderTraceParent = bus.HeaderTraceParent

	PublishedAtFormat = bus.PublishedAtFormat
	ContentType       = bus.ContentType
	ContentTypeCloud  = bus.ContentTypeCloud
	DeadLetterType    = bus.DeadLetterType
)

// ParseState reads the value of HeaderState, AppendState writes it.
var (
	ParseState  = bus.ParseState
	AppendState = bus.AppendState
)
