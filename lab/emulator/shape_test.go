package emulator

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestRateText(t *testing.T) {
	tests := []struct {
		text string
		want Rate
		back string
	}{
		{"100mbit", 100e6, "100mbit"},
		{"2.5gbit", 2.5e9, "2.5gbit"},
		{"1500 kbit", 1.5e6, "1.5mbit"},
		{"64Kbit", 64000, "64kbit"},
		{"800bit", 800, "800bit"},
		{"0bit", 0, "0bit"},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			var r Rate
			if err := r.UnmarshalText([]byte(tt.text)); err != nil || r != tt.want || r.String() != tt.back {
				t.Errorf("%d (%v), error %v; want %d (%s)", r, r, err, tt.want, tt.back)
			}
		})
	}
	for _, text := range []string{"", "100", "100mbyte", "-1mbit", "nanmbit", "infgbit", "1e3gbit", "mbit"} {
		var r Rate
		if err := r.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is taken as %v", text, r)
		}
	}
}

func TestShareText(t *testing.T) {
	for text, want := range map[string]Share{"1%": 0.01, "0.01": 0.01, "100%": 1, "0": 0, " 0.1 % ": 0.001} {
		var s Share
		if err := s.UnmarshalText([]byte(text)); err != nil || s != want {
			t.Errorf("%q: %v, error %v; want %v", text, float64(s), err, float64(want))
		}
	}
	for _, text := range []string{"", "%", "101%", "1.1", "-1%", "nan", "x"} {
		var s Share
		if err := s.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is taken as %v", text, s)
		}
	}
}

func TestShapeJSON(t *testing.T) {
	shape := Shape{Rate: 1e9, Delay: 10 * time.Millisecond, Loss: 0.005, Queue: Queue{Packets: 100, Discipline: CoDel}}
	b, err := json.Marshal(shape)
	if err != nil {
		t.Fatal(err)
	}
	var back Shape
	if err := json.Unmarshal(b, &back); err != nil || back != shape {
		t.Errorf("%s is read as %+v, error %v", b, back, err)
	}
}

func TestValidate(t *testing.T) {
	tests := []struct {
		name  string
		shape Shape
		want  string // "": fine
	}{
		{"zero", Shape{}, ""},
		{"all", Shape{Rate: 1e6, Delay: time.Second, Jitter: time.Second, Loss: 0.5, Burst: 4, Duplicate: 1, Corrupt: 1, Reorder: 1,
			Behind: 9, Within: time.Second, Queue: Queue{1, 2, CoDel}, Seed: 1}, ""},
		{"slow", Shape{Rate: 999}, "rate 999bit"},
		{"fast", Shape{Rate: 2e11}, "rate 200gbit"},
		{"back in time", Shape{Delay: -1}, "delay -1ns"},
		{"an age", Shape{Delay: time.Hour}, "delay 1h"},
		{"jitter over delay", Shape{Delay: 1, Jitter: 2}, "jitter 2ns: more than the delay"},
		{"loss", Shape{Loss: 1.5}, "loss 150%"},
		{"bursts", Shape{Loss: 0.9, Burst: 2}, "bursts of 2"},
		{"discipline", Shape{Rate: 1e6, Queue: Queue{Discipline: "red"}}, `discipline "red"`},
		{"queue without rate", Shape{Queue: Queue{Packets: 1}}, "without a rate"},
		{"behind", Shape{Behind: -1}, "behind -1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.shape.Validate()
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}
