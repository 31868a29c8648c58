// Package event turns records into Eiffel-style events.
//
// An event is a JSON document {meta, data, links} by the Eiffel protocol, edition Orizaba. Encoding is pure: the same
// record under the same options makes the same bytes and the same meta.id, whichever process encodes it and when
// (design invariant 4). Whatever may differ between two sends is left to message headers.
package event
