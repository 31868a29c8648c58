package report

import (
	"fmt"
	"os"
	"runtime"
	"strings"
)

// ThisMachine describes the machine; what it does not tell is empty.
func ThisMachine() Machine {
	m := Machine{Cores: runtime.NumCPU(), Go: runtime.Version()}
	m.CPU = field("/proc/cpuinfo", "model name")
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = strings.TrimSpace(string(release))
	}
	if bytes := MemoryBytes(); bytes > 0 {
		m.Memory = fmt.Sprintf("%.0f GiB", float64(bytes)/(1<<30))
	}
	return m
}

// MemoryBytes is the memory of the machine, 0 where it does not tell.
func MemoryBytes() int64 {
	var kb int64
	if _, err := fmt.Sscanf(field("/proc/meminfo", "MemTotal"), "%d kB", &kb); err != nil {
		return 0
	}
	return kb << 10
}

// LoadNow is the mean load of the last minute, 0 where the machine does not tell.
func LoadNow() float64 {
	var load float64
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		_, _ = fmt.Sscan(string(text), &load) // 0 does for what cannot be read
	}
	return load
}

// field returns the first value of a name in a file of lines "name: value".
func field(path, name string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
