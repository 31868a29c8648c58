// Package event turns rows into Eiffel-style events.
//
// An event is a JSON document {meta, data, links} by the Eiffel protocol, edition Orizaba. Encoding
// is pure: the same row under the same options makes the same meta.id, in every process and at any
// time (design invariant 4), and the same bytes, but for the time of the read in a row that has no
// time of its own. Values that may differ between two sends are message headers.
//
// # The envelope
//
//	{"meta":  {"id", "type", "version", "time", "source": {"domainId"}},
//	 "data":  {<columns>, "reason", "row": {"source", "table", "id"}},
//	 "links": [{"type": "PREVIOUS_VERSION", "target"}]}
//
// meta.time is MODIFIED, else CREATED, else the database's clock when the row was read, in
// milliseconds. Only in the last case ([Event.FromClock]) do the bytes of two reads of a row
// differ. For a row that is gone, it is the clock of the read that did not find it. meta.source
// names the installation, but no host and no version of the program; the stream is a header. Types
// do not begin with "Eiffel", which the protocol reserves. JSON Schemas of all events are in
// schemas; see [Schema].
//
// [Format] says how this is written: as that document, as a CloudEvent that holds it, or as the
// members of data that are columns alone.
//
// # The shape
//
// [Shape] is what the events of a table look like: the members of data that are columns, and the
// types of their values. It is known once the columns are; its hash, Event.Schema, tells it from
// others. [Shape.Broken] says what consumers of a former shape would miss.
//
// # Operations
//
// A row of a release stream is Published. A row of a capability stream is Deleted when its DELETED
// column says so, else Added, or Modified where the caller knows that its entity is there already
// ([Row]). That column says no with NULL, a number equal to zero, bits (or a byte string) that are
// all zero, the empty string, the words "0", "f", "false", "n" and "no" in any letter case, JSON
// null and a zero date; with everything else it says yes, unless a [Deletion] names its values. A
// row that is Filtered is Deleted, too,
// and so is an entity whose row is gone ([Absent]). A deleted event carries the key members alone,
// the reason (TOMBSTONE for a row that says so, FILTERED for another one that is there,
// ABSENT_IN_SNAPSHOT for one that is not, STALE for one that was not touched for too long) and the
// row. The caller leaves out the Filtered rows of a release stream.
//
// The caller finds out which operation a row is, if it is any: it compares the row's digest
// ([Encoder.Digest]) with the digest published last, and links the new event to the entity's last
// one ([Row].Predecessor).
//
// # Members
//
// A column becomes the member of its name in camel case: it is split at everything but letters with
// their accents and digits, and before an upper-case letter that follows another character or
// precedes a lower-case one. Digits belong to the word before them, letters of all scripts count,
// underscores in front fall away: app_name and AppName make appName, URL_path urlPath, _id id,
// MD5Hash md5Hash. Where two columns make one member, or a column makes row or reason,
// [Encoder.Bind] asks for FIELDS.
//
// # Values
//
//	Int               number with all its digits
//	Decimal           string with all its digits
//	Float             number
//	Bit               number, up to 64 bits
//	Text, Clock       string
//	Binary            string, base64 (RFC 4648, section 4)
//	JSON              the document, without blanks between its tokens, up to 9998 levels deep
//	Date              string "2006-01-02"
//	DateTime          string, RFC 3339 in UTC with the fraction digits of the column; read in Options.Zone
//	Timestamp         the same; it is in UTC already
//	NULL              null
//
// A value that has no such form is a bad value: text that is not UTF-8, a JSON column without JSON,
// a zero date, a date that no calendar knows or that leaves the years 0 to 9999 in UTC. It becomes
// null and is counted, or stops the row; see [BadValue].
//
// # Identity
//
// The key names the entity: it is the text of the key columns, and [Encoder.KeyValues] reads them
// back. The digest covers the names and values of the mapped columns, without the id, CREATED,
// MODIFIED and NULLs, in the order of the names. So a heartbeat, a new empty column and another
// order of columns make no new state. The digest of a row that is gone is zero. meta.id is a UUID
// of version 5 over stream, shard, the values of the key columns, row id, operation, digest and
// predecessor. The length of each part precedes it, so two different facts never hash the same
// bytes. The predecessor tells a state that comes back from its first occurrence.
package event
