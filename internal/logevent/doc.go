// Package logevent names the lines of the log: each has the attribute event, by which programs
// find it. The name is made of the message, which is constant, so no call site states it.
// docs/logs.md lists the events; a test writes that page from the source and fails where a message
// is not constant or two have one name. A message that is worded differently is another event, and
// shows up in review as a change of that page.
package logevent
