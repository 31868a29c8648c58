package kafka

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// topicsAnswer is an answer to Metadata, version 10: one broker, and a topic with two partitions.
func topicsAnswer(id [topicIDSize]byte, code uint16) []byte {
	text := func(b []byte, s string) []byte { return append(binary.AppendUvarint(b, uint64(len(s)+1)), s...) }
	b := []byte{0, 0, 0, 0, 0, 2, 0, 0, 0, 1}
	b = append(text(b, "host"), 0, 0, 35, 132, 0)
	b = append(b, 1, 7, 2, 0xaa, 0xbb)
	b = append(text(b, "cluster"), 0, 0, 0, 1)
	b = append(b, 2)
	b = text(binary.BigEndian.AppendUint16(b, code), "orders")
	b = append(append(b, id[:]...), 0, 3)
	for partition := range byte(2) {
		b = append(b, 0, 0, 0, 0, 0, partition, 0, 0, 0, 1, 0, 0, 0, 9)
		b = append(b, 3, 0, 0, 0, 1, 0, 0, 0, 2, 2, 0, 0, 0, 1, 1, 0)
	}
	return append(b, 0x80, 0, 0, 0, 0, 0x80, 0, 0, 0, 0)
}

func TestTopicIDsAreDecoded(t *testing.T) {
	id := [topicIDSize]byte{0xfb, 0xff, 15: 1}
	whole := topicsAnswer(id, 0)
	got, err := decodeTopicIDs(whole)
	if err != nil || len(got) != 1 || got["orders"] != "-_8AAAAAAAAAAAAAAAAAAQ" {
		t.Errorf("ids %v, %v", got, err)
	}
	for name, answer := range map[string][]byte{"without an id": topicsAnswer([topicIDSize]byte{}, 0), "not there": topicsAnswer(id, 3)} {
		if got, err := decodeTopicIDs(answer); err != nil || len(got) != 0 {
			t.Errorf("%s: ids %v, %v", name, got, err)
		}
	}
	for n := range whole[:len(whole)-5] {
		if got, err := decodeTopicIDs(whole[:n]); err == nil {
			t.Fatalf("cut to %d of %d bytes: ids %v", n, len(whole), got)
		}
	}
}

func FuzzTopicIDs(f *testing.F) {
	f.Add(topicsAnswer([topicIDSize]byte{1}, 0))
	f.Add(bytes.Repeat([]byte{0xff}, 40))
	f.Fuzz(func(t *testing.T, answer []byte) {
		ids, err := decodeTopicIDs(answer)
		if len(ids) > len(answer) {
			t.Errorf("%d ids of %d bytes, %v", len(ids), len(answer), err)
		}
		if _, err := newestVersion(answer, 3); err == nil && len(answer) < 6 {
			t.Error("an answer is complete without its count")
		}
	})
}
