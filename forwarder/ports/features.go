package ports

import (
	"encoding/binary"
	"unsafe"

	"golang.org/x/sys/unix"

	"baton/openflow"
)

// features are an interface's link settings by ethtool. Speeds are in kbit/s; 0: unknown.
type features struct {
	current, advertised, supported, peer openflow.PortFeatures
	speed, most                          uint32
}

// Offsets in struct ethtool_link_settings (linux/ethtool.h), in bytes. Three masks of link modes follow it, with as many words as the driver
// uses: supported, advertised, and advertised by the peer.
const (
	settingsSpeed   = 4 // Mbit/s
	settingsDuplex  = 8
	settingsPort    = 9
	settingsAutoneg = 11
	settingsWords   = 15
	settingsSize    = 48

	maxWords = 127

	speedUnknown = 0xffffffff
	duplexHalf   = 0
	portTwisted  = 0
	portFibre    = 3
	portDirect   = 5
)

// readFeatures reads link settings. A missing interface, or one without settings, has no features.
func readFeatures(socket int, name string) features {
	b := make([]byte, settingsSize+3*4*maxWords)
	words := byte(0)
	for range 2 { // the first reply has the negative number of words
		clear(b)
		binary.NativeEndian.PutUint32(b, unix.ETHTOOL_GLINKSETTINGS)
		b[settingsWords] = words
		if err := ethtool(socket, name, b); err != nil {
			return features{}
		}
		words = -b[settingsWords]
	}
	return parseSettings(b)
}

func ethtool(socket int, name string, argument []byte) error {
	request := struct { // struct ifreq with ifr_data
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}{data: unsafe.Pointer(unsafe.SliceData(argument))}
	copy(request.name[:unix.IFNAMSIZ-1], name)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(socket), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request)))
	if errno != 0 {
		return errno
	}
	return nil
}

func parseSettings(b []byte) features {
	var f features
	words := int(b[settingsWords])
	if len(b) < settingsSize+3*4*words {
		return f
	}
	var speeds [3]uint32
	for i, to := range [3]*openflow.PortFeatures{&f.supported, &f.advertised, &f.peer} {
		*to, speeds[i] = modeFeatures(b[settingsSize+4*words*i:][:4*words])
	}
	if mbit := binary.NativeEndian.Uint32(b[settingsSpeed:]); mbit != 0 && mbit != speedUnknown {
		f.speed = kbit(mbit)
		f.current = speedFeature(mbit, b[settingsDuplex] == duplexHalf)
		switch b[settingsPort] {
		case portTwisted, portDirect:
			f.current |= openflow.PortFeaturesCopper
		case portFibre:
			f.current |= openflow.PortFeaturesFiber
		}
		if b[settingsAutoneg] != 0 {
			f.current |= openflow.PortFeaturesAutoneg
		}
	}
	f.most = max(kbit(speeds[0]), f.speed)
	return f
}

// kbit saturates at 4 Tbit/s.
func kbit(mbit uint32) uint32 { return uint32(min(uint64(mbit)*1000, speedUnknown)) }

func speedFeature(mbit uint32, half bool) openflow.PortFeatures {
	type speed struct {
		mbit uint32
		half bool
	}
	f, ok := map[speed]openflow.PortFeatures{
		{10, true}:         openflow.PortFeatures10MBHD,
		{10, false}:        openflow.PortFeatures10MBFD,
		{100, true}:        openflow.PortFeatures100MBHD,
		{100, false}:       openflow.PortFeatures100MBFD,
		{1000, true}:       openflow.PortFeatures1GBHD,
		{1000, false}:      openflow.PortFeatures1GBFD,
		{10_000, false}:    openflow.PortFeatures10GBFD,
		{40_000, false}:    openflow.PortFeatures40GBFD,
		{100_000, false}:   openflow.PortFeatures100GBFD,
		{1_000_000, false}: openflow.PortFeatures1TBFD,
	}[speed{mbit, half}]
	if !ok {
		return openflow.PortFeaturesOther
	}
	return f
}

// linkModes are the ranges of enum ethtool_link_mode_bit_indices that stand for speeds.
var linkModes = []struct {
	from, to int
	mbit     uint32
	half     bool
}{
	{0, 0, 10, true}, {1, 1, 10, false}, {2, 2, 100, true}, {3, 3, 100, false}, {4, 4, 1000, true}, {5, 5, 1000, false},
	{12, 12, 10_000, false}, {15, 15, 2500, false}, {17, 17, 1000, false}, {18, 20, 10_000, false}, {21, 22, 20_000, false},
	{23, 26, 40_000, false}, {27, 30, 56_000, false}, {31, 33, 25_000, false}, {34, 35, 50_000, false}, {36, 39, 100_000, false},
	{40, 40, 50_000, false}, {41, 41, 1000, false}, {42, 46, 10_000, false}, {47, 47, 2500, false}, {48, 48, 5000, false},
	{52, 56, 50_000, false}, {57, 61, 100_000, false}, {62, 66, 200_000, false}, {67, 67, 100, false}, {68, 68, 1000, false},
	{69, 73, 400_000, false}, {75, 79, 100_000, false}, {80, 84, 200_000, false}, {85, 89, 400_000, false}, {90, 90, 100, true},
	{91, 91, 100, false}, {92, 92, 10, false}, {93, 98, 800_000, false},
}

// otherModes are bits of the same enum that do not stand for a speed.
var otherModes = map[int]openflow.PortFeatures{
	6:  openflow.PortFeaturesAutoneg,
	7:  openflow.PortFeaturesCopper,
	10: openflow.PortFeaturesFiber,
	13: openflow.PortFeaturesPause,
	14: openflow.PortFeaturesPauseAsym,
}

// modeFeatures returns the features in a mask of link modes, and the highest speed in Mbit/s.
func modeFeatures(mask []byte) (f openflow.PortFeatures, most uint32) {
	has := func(bit int) bool {
		word := bit / 32 * 4
		return word < len(mask) && binary.NativeEndian.Uint32(mask[word:])>>(bit%32)&1 != 0
	}
	for _, m := range linkModes {
		for bit := m.from; bit <= m.to; bit++ {
			if has(bit) {
				f |= speedFeature(m.mbit, m.half)
				most = max(most, m.mbit)
			}
		}
	}
	for bit, feature := range otherModes {
		if has(bit) {
			f |= feature
		}
	}
	return f, most
}
