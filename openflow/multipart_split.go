package openflow

// Split makes the replies that say body: one, or as many as it takes for none to be longer than a message can be, all but the
// last with MultipartMore (7.3.5). Only lists are split, between their entries; a single entry that is too long is
// refused by [Append].
func Split(body MultipartBody) []*MultipartReply {
	switch list := body.(type) {
	case FlowStatsReply:
		return split(list, func(l []FlowStats) MultipartBody { return FlowStatsReply(l) })
	case TableStatsReply:
		return split(list, func(l []TableStats) MultipartBody { return TableStatsReply(l) })
	case PortStatsReply:
		return split(list, func(l []PortStats) MultipartBody { return PortStatsReply(l) })
	case PortDescReply:
		return split(list, func(l []Port) MultipartBody { return PortDescReply(l) })
	case QueueStatsReply:
		return split(list, func(l []QueueStats) MultipartBody { return QueueStatsReply(l) })
	case GroupStatsReply:
		return split(list, func(l []GroupStats) MultipartBody { return GroupStatsReply(l) })
	case GroupDescReply:
		return split(list, func(l []GroupDesc) MultipartBody { return GroupDescReply(l) })
	case MeterStatsReply:
		return split(list, func(l []MeterStats) MultipartBody { return MeterStatsReply(l) })
	case MeterConfigReply:
		return split(list, func(l []MeterConfig) MultipartBody { return MeterConfigReply(l) })
	case TableFeaturesBody:
		return split(list, func(l []TableFeatures) MultipartBody { return TableFeaturesBody(l) })
	}
	return []*MultipartReply{{Body: body}}
}

func split[T appendable](list []T, body func([]T) MultipartBody) []*MultipartReply {
	const room = MaxLength - HeaderSize - multipartSize
	var parts []*MultipartReply
	var entry []byte
	begin, used := 0, 0
	for i, e := range list {
		entry = e.appendTo(entry[:0])
		if used+len(entry) > room && i > begin {
			parts = append(parts, &MultipartReply{MultipartMore, body(list[begin:i])})
			begin, used = i, 0
		}
		used += len(entry)
	}
	return append(parts, &MultipartReply{0, body(list[begin:])})
}
