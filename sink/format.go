package sink

// Format is how the value of a message is written.
type Format uint8

// The formats: an Eiffel document, a CloudEvent whose data is one, and the columns of the row
// alone. What a value does not say then, the headers say.
const (
	FormatEiffel Format = iota
	FormatCloudEvents
	FormatRow
)

// Bare is what the headers of a message say of an event whose value is the row alone.
type Bare struct {
	// Time is meta.time in milliseconds.
	Time int64
	// Previous is the target of the link PREVIOUS_VERSION, Reason data.reason; empty for none.
	Previous, Reason string
}

// The values of HeaderContentType.
const (
	ContentType      = "application/json"
	ContentTypeCloud = "application/cloudevents+json"
)

// isDocument reports whether the value says id, type and version of its event, in its meta. Of a
// tombstone, a row and a dead letter the headers alone do.
func (m *Message) isDocument() bool {
	return m.Value != nil && m.Format != FormatRow && m.Type != DeadLetterType
}

// contentType returns the value of HeaderContentType.
func (m *Message) contentType() string {
	if m.Format == FormatCloudEvents {
		return ContentTypeCloud
	}
	return ContentType
}
