package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Another test process tries the ports that this one has.
func TestAFreePortIsGivenToOneTestProcess(t *testing.T) {
	if ports := os.Getenv("BRIDGE_TEST_PORTS"); ports != "" {
		for text := range strings.FieldsSeq(ports) {
			var port int
			if _, err := fmt.Sscan(text, &port); err != nil || reservePort(t, port) {
				t.Errorf("%q is given again: %v", text, err)
			}
		}
		return
	}
	var ports []string
	for range 10 {
		ports = append(ports, fmt.Sprint(FreePort(t)))
	}
	other := exec.Command(os.Args[0], "-test.run", "^TestAFreePortIsGivenToOneTestProcess$")
	other.Env = append(os.Environ(), "BRIDGE_TEST_PORTS="+strings.Join(ports, " "))
	if out, err := other.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
