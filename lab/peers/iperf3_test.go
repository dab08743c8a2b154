package peers

import "testing"

func TestReadFlow(t *testing.T) {
	tests := []struct {
		name, report string
		want         Flow
		fault        string
	}{
		{"TCP", `{"end": {"sum_sent": {"seconds": 2, "bytes": 3000, "bits_per_second": 12000, "retransmits": 7},
			"sum_received": {"seconds": 2.5, "bytes": 2500, "bits_per_second": 8000}}}`,
			Flow{Sent: 3000, Received: 2500, Time: 2500e6, Rate: 8000, Retransmits: 7}, ""},
		{"UDP", `{"end": {"sum": {"bytes": 3000, "jitter_ms": 0.25, "lost_packets": 30, "packets": 300},
			"sum_sent": {"bytes": 3000, "packets": 300}, "sum_received": {"seconds": 1, "bytes": 2700, "bits_per_second": 21600}}}`,
			Flow{Sent: 3000, Received: 2700, Time: 1e9, Rate: 21600, Packets: 300, Lost: 30, Jitter: 250e3}, ""},
		{"an error", `{"end": {}, "error": "error - the server is busy"}`, Flow{}, "it says: the server is busy"},
		{"between two clients", `{"end": {}, "error": "error - unable to connect to server: Connection refused"}`,
			Flow{}, "it says: the server is busy"},
		{"nothing", ``, Flow{}, `read its report: unexpected end of JSON input: ""`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := readFlow(tt.report)
			fault := ""
			if err != nil {
				fault = err.Error()
			}
			tt.want.JSON = tt.report
			if got != tt.want || fault != tt.fault {
				t.Errorf("got %+v, %q, want %+v, %q", got, fault, tt.want, tt.fault)
			}
		})
	}
}
