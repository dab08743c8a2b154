package ports

import (
	"encoding/binary"
	"testing"

	of "baton/openflow"
)

// settings are an answer to ETHTOOL_GLINKSETTINGS with masks of three words.
func settings(mbit uint32, duplex, port, autoneg byte, supported, advertised, peer []int) []byte {
	const words = 3
	b := make([]byte, settingsSize+3*4*words)
	binary.NativeEndian.PutUint32(b[settingsSpeed:], mbit)
	b[settingsDuplex], b[settingsPort], b[settingsAutoneg], b[settingsWords] = duplex, port, autoneg, words
	for i, bits := range [][]int{supported, advertised, peer} {
		for _, bit := range bits {
			at := b[settingsSize+4*words*i+bit/32*4:]
			binary.NativeEndian.PutUint32(at, binary.NativeEndian.Uint32(at)|1<<(bit%32))
		}
	}
	return b
}

func TestParseSettings(t *testing.T) {
	const full, tp, fibre = 1, 0, 3
	tests := []struct {
		name string
		b    []byte
		want features
	}{
		{"veth", settings(10_000, full, tp, 0, nil, nil, nil),
			features{current: of.PortFeatures10GBFD | of.PortFeaturesCopper, speed: 10_000_000, most: 10_000_000}},
		{"copper at 100", settings(100, full, tp, 1, []int{0, 1, 2, 3, 5, 6, 7, 13}, []int{2, 3, 6, 7}, []int{3, 6}), features{
			current: of.PortFeatures100MBFD | of.PortFeaturesCopper | of.PortFeaturesAutoneg,
			supported: of.PortFeatures10MBHD | of.PortFeatures10MBFD | of.PortFeatures100MBHD | of.PortFeatures100MBFD |
				of.PortFeatures1GBFD | of.PortFeaturesAutoneg | of.PortFeaturesCopper | of.PortFeaturesPause,
			advertised: of.PortFeatures100MBHD | of.PortFeatures100MBFD | of.PortFeaturesAutoneg | of.PortFeaturesCopper,
			peer:       of.PortFeatures100MBFD | of.PortFeaturesAutoneg,
			speed:      100_000, most: 1_000_000}},
		{"fibre at 25 G", settings(25_000, full, fibre, 0, []int{10, 33, 38, 61}, nil, nil), features{
			current:   of.PortFeaturesOther | of.PortFeaturesFiber,
			supported: of.PortFeaturesFiber | of.PortFeaturesOther | of.PortFeatures100GBFD,
			speed:     25_000_000, most: 100_000_000}},
		{"half duplex", settings(10, duplexHalf, tp, 0, nil, nil, nil),
			features{current: of.PortFeatures10MBHD | of.PortFeaturesCopper, speed: 10_000, most: 10_000}},
		{"no link", settings(speedUnknown, 0xff, 0xef, 0, []int{12}, nil, nil),
			features{supported: of.PortFeatures10GBFD, most: 10_000_000}},
		{"faster than kbit/s can say", settings(5_000_000, full, tp, 0, nil, nil, nil),
			features{current: of.PortFeaturesOther | of.PortFeaturesCopper, speed: speedUnknown, most: speedUnknown}},
		{"more words than there are", append(settings(10, 1, 0, 0, nil, nil, nil)[:settingsWords], make([]byte, 40)...),
			features{current: of.PortFeatures10MBFD | of.PortFeaturesCopper, speed: 10_000, most: 10_000}},
	}
	tests[len(tests)-1].b[settingsWords] = 100
	tests[len(tests)-1].want = features{}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := parseSettings(tt.b); got != tt.want {
				t.Errorf("features %+v, want %+v", got, tt.want)
			}
		})
	}
}
