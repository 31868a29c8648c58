package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

const healthDetails = `
It asks the bridge that runs at BRIDGE_HTTP_ADDR (127.0.0.1:8080) and reads no other variable, so that it can be the health
check of a container. It asks /livez: whether the loops turn, which they do while the database or the bus is away. With --ready it
asks /readyz: whether source and bus can be reached and no stream is stopped. An address for all interfaces means this host.

Exit status: 0 yes, 1 no, with the reasons, or no answer within 3 s, 2 when the address is wrong.
`

const (
	httpVariable = prefix + "HTTP_ADDR"
	// healthWithin bounds the question, below the time limit of the image's health check.
	healthWithin = 3 * time.Second
	// maxAnswer bounds what is read of an answer.
	maxAnswer = 1 << 20
)

var errNoHealth = fmt.Errorf("no answer within %s", healthWithin)

func healthCommand(p *process, ctx context.Context, call call) error {
	addr, err := loadHTTPAddr(p.environ)
	if err != nil {
		return err
	}
	path := "/livez"
	if call.flags["ready"] {
		path = "/readyz"
	}
	ctx, cancel := context.WithTimeoutCause(ctx, healthWithin, errNoHealth)
	defer cancel()
	status, body, err := ask(ctx, "http://"+addr+path)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("ask the bridge at %s: %w: see that it runs and that %s is the same here and there", addr, err, httpVariable)
	}
	return p.printHealth(addr, status, body)
}

// printHealth prints what a bridge answered; the error says that it is not well.
func (p *process) printHealth(addr string, status int, body []byte) error {
	var answer readiness
	if err := json.Unmarshal(body, &answer); err != nil || answer.Status == "" {
		return fmt.Errorf("what listens on %s is no bridge (status %d): see %s", addr, status, httpVariable)
	}
	var text strings.Builder
	fmt.Fprintln(&text, answer.Status)
	for _, r := range answer.Reasons {
		fmt.Fprintln(&text, "  "+r.line())
	}
	if _, err := io.WriteString(p.stdout, p.secrets.clean(text.String())); err != nil {
		return err
	}
	if status != http.StatusOK {
		return errors.New("the bridge at " + addr + " is " + answer.Status)
	}
	return nil
}

// line is the reason for people.
func (r Reason) line() string {
	switch {
	case r.Stream == "":
		return oneLine(r.Reason)
	case r.Shard == "":
		return oneLine(r.Stream + ": " + r.Reason)
	}
	return oneLine(r.Stream + " " + r.Shard + ": " + r.Reason)
}

// ask gets a page, past any proxy of the environment.
func ask(ctx context.Context, url string) (status int, body []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, nil, err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		// The text around it repeats the URL.
		return 0, nil, errors.Unwrap(err)
	}
	body, err = io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	return response.StatusCode, body, errors.Join(err, response.Body.Close())
}

// loadHTTPAddr reads BRIDGE_HTTP_ADDR and nothing else, and returns the address to ask.
func loadHTTPAddr(environ []string) (string, error) {
	l := &loader{env: parseEnvironment(environ), secrets: &redactor{}}
	text, ok := l.env[httpVariable]
	if !ok {
		for _, v := range variablesOf(&processSettings{}, prefix) {
			if v.name == httpVariable {
				text = v.def
			}
		}
	}
	l.judgeProcess(&Config{HTTPAddr: text})
	if err := l.err(); err != nil {
		return "", err
	}
	// judgeProcess has split it.
	host, port, _ := net.SplitHostPort(text)
	if port == "0" {
		l.add(httpVariable, "lets the system choose the port, so nobody can ask there: write a port, as in 127.0.0.1:8080")
		return "", l.err()
	}
	return net.JoinHostPort(reachable(host), port), nil
}

// reachable returns where a server that listens on host is asked from the same host. It names addresses, because an empty
// image knows no localhost.
func reachable(host string) string {
	ip := net.ParseIP(host)
	switch {
	case host == "" || ip.Equal(net.IPv4zero):
		return "127.0.0.1"
	case ip.Equal(net.IPv6unspecified):
		return "::1"
	}
	return host
}
