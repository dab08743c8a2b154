package openflow_test

import (
	"encoding/binary"
	"fmt"

	"baton/openflow"
)

func port(p openflow.Port) object {
	return class("OFPPort", object{
		"port_no": p.No, "hw_addr": p.MAC.String(), "name": p.Name, "config": p.Config, "state": p.State, "curr": p.Current,
		"advertised": p.Advertised, "supported": p.Supported, "peer": p.Peer, "curr_speed": p.Speed, "max_speed": p.MaxSpeed,
	})
}

func bucket(b openflow.Bucket) object {
	return class("OFPBucket", object{
		"weight": b.Weight, "watch_port": b.WatchPort, "watch_group": b.WatchGroup, "actions": list(b.Actions, action),
	})
}

func band(b openflow.Band) object {
	fields := object{"type": b.Kind, "rate": b.Rate, "burst_size": b.Burst}
	switch b.Kind {
	case openflow.BandDrop:
		return class("OFPMeterBandDrop", fields)
	case openflow.BandDSCPRemark:
		fields["prec_level"] = b.PrecLevel
		return class("OFPMeterBandDscpRemark", fields)
	}
	fields["experimenter"] = binary.BigEndian.Uint32(b.Data)
	return class("OFPMeterBandExperimenter", fields)
}

func queue(q openflow.Queue) object {
	return class("OFPPacketQueue", object{"queue_id": q.ID, "port": q.Port, "properties": list(q.Properties, queueProp)})
}

func queueProp(p openflow.QueueProp) object {
	switch p.Kind {
	case openflow.QueueMinRate:
		return class("OFPQueuePropMinRate", object{"property": p.Kind, "rate": p.Rate})
	case openflow.QueueMaxRate:
		return class("OFPQueuePropMaxRate", object{"property": p.Kind, "rate": p.Rate})
	}
	bytes := []any{} // os-ken lists them
	for _, b := range p.Data[8:] {
		bytes = append(bytes, b)
	}
	return class("OFPQueuePropExperimenter", object{
		"property": p.Kind, "experimenter": binary.BigEndian.Uint32(p.Data), "data": bytes,
	})
}

func flowQuery(name string, q openflow.FlowQuery) (string, object) {
	return name, object{
		"table_id": q.Table, "out_port": q.OutPort, "out_group": q.OutGroup, "cookie": q.Cookie, "cookie_mask": q.CookieMask,
		"match": match(q.Match),
	}
}

// describeRequest has the body's fields beside the flags, as os-ken does.
func describeRequest(m *openflow.MultipartRequest) object {
	name, fields := requestFields(m.Body)
	if fields == nil {
		return nil
	}
	fields["flags"], fields["type"] = m.Flags, m.Body.Multipart()
	return class(name, fields)
}

func requestFields(body openflow.MultipartBody) (string, object) {
	switch b := body.(type) {
	case openflow.DescRequest:
		return "OFPDescStatsRequest", object{}
	case openflow.FlowStatsRequest:
		return flowQuery("OFPFlowStatsRequest", b.FlowQuery)
	case openflow.AggregateRequest:
		return flowQuery("OFPAggregateStatsRequest", b.FlowQuery)
	case openflow.TableStatsRequest:
		return "OFPTableStatsRequest", object{}
	case openflow.PortStatsRequest:
		return "OFPPortStatsRequest", object{"port_no": b.Port}
	case openflow.PortDescRequest:
		return "OFPPortDescStatsRequest", object{}
	case openflow.QueueStatsRequest:
		return "OFPQueueStatsRequest", object{"port_no": b.Port, "queue_id": b.Queue}
	case openflow.GroupStatsRequest:
		return "OFPGroupStatsRequest", object{"group_id": b.Group}
	case openflow.GroupDescRequest:
		return "OFPGroupDescStatsRequest", object{}
	case openflow.GroupFeaturesRequest:
		return "OFPGroupFeaturesStatsRequest", object{}
	case openflow.MeterStatsRequest:
		return "OFPMeterStatsRequest", object{"meter_id": b.Meter}
	case openflow.MeterConfigRequest:
		return "OFPMeterConfigStatsRequest", object{"meter_id": b.Meter}
	case openflow.MeterFeaturesRequest:
		return "OFPMeterFeaturesStatsRequest", object{}
	case openflow.TableFeaturesBody:
		return "OFPTableFeaturesStatsRequest", object{"body": list(b, tableFeatures)}
	case openflow.MultipartExperimenterBody:
		if b.Experimenter == openflow.ONFExperimenter {
			return "", nil // os-ken has a class for each of its types
		}
		return "OFPExperimenterStatsRequest", object{
			"experimenter": b.Experimenter, "exp_type": b.Kind, "data": data(b.Data),
		}
	}
	return "", nil
}

func describeReply(m *openflow.MultipartReply) object {
	name, body := replyBody(m.Body)
	if name == "" {
		return nil
	}
	return class(name, object{"flags": m.Flags, "type": m.Body.Multipart(), "body": body})
}

func replyBody(body openflow.MultipartBody) (string, any) {
	switch b := body.(type) {
	case openflow.DescReply:
		return "OFPDescStatsReply", class("OFPDescStats", object{
			"mfr_desc": b.Manufacturer, "hw_desc": b.Hardware, "sw_desc": b.Software, "serial_num": b.Serial, "dp_desc": b.Datapath,
		})
	case openflow.FlowStatsReply:
		return "OFPFlowStatsReply", list(b, flowStats)
	case openflow.AggregateReply:
		return "OFPAggregateStatsReply", class("OFPAggregateStats", object{
			"packet_count": b.Packets, "byte_count": b.Octets, "flow_count": b.Flows,
		})
	case openflow.TableStatsReply:
		return "OFPTableStatsReply", list(b, tableStats)
	case openflow.PortStatsReply:
		return "OFPPortStatsReply", list(b, portStats)
	case openflow.PortDescReply:
		return "OFPPortDescStatsReply", list(b, port)
	case openflow.QueueStatsReply:
		return "OFPQueueStatsReply", list(b, queueStats)
	case openflow.GroupStatsReply:
		return "OFPGroupStatsReply", list(b, groupStats)
	case openflow.GroupDescReply:
		return "OFPGroupDescStatsReply", list(b, groupDesc)
	case openflow.GroupFeaturesReply:
		return "OFPGroupFeaturesStatsReply", class("OFPGroupFeaturesStats", object{
			"types": b.Types, "capabilities": b.Capabilities, "max_groups": b.Max[:], "actions": b.Actions[:],
		})
	case openflow.MeterStatsReply:
		return "OFPMeterStatsReply", list(b, meterStats)
	case openflow.MeterConfigReply:
		return "OFPMeterConfigStatsReply", list(b, meterConfig)
	case openflow.MeterFeaturesReply:
		return "OFPMeterFeaturesStatsReply", []any{class("OFPMeterFeaturesStats", object{
			"max_meter": b.MaxMeter, "band_types": b.BandTypes, "capabilities": b.Capabilities, "max_bands": b.MaxBands,
			"max_color": b.MaxColor,
		})}
	case openflow.TableFeaturesBody:
		return "OFPTableFeaturesStatsReply", list(b, tableFeatures)
	case openflow.MultipartExperimenterBody:
		return "OFPExperimenterStatsReply", class("OFPExperimenterMultipart", object{
			"experimenter": b.Experimenter, "exp_type": b.Kind, "data": data(b.Data),
		})
	}
	return "", nil
}

func flowStats(f openflow.FlowStats) object {
	return class("OFPFlowStats", object{
		"table_id": f.Table, "duration_sec": f.Duration.Sec, "duration_nsec": f.Duration.Nsec, "priority": f.Priority,
		"idle_timeout": f.Idle, "hard_timeout": f.Hard, "flags": f.Flags, "cookie": f.Cookie, "packet_count": f.Packets,
		"byte_count": f.Octets, "match": match(f.Match), "instructions": list(f.Instructions, instruction),
	})
}

func tableStats(s openflow.TableStats) object {
	return class("OFPTableStats", object{
		"table_id": s.Table, "active_count": s.Active, "lookup_count": s.Lookups, "matched_count": s.Hits,
	})
}

func portStats(s openflow.PortStats) object {
	return class("OFPPortStats", object{
		"port_no": s.Port, "rx_packets": s.RxPackets, "tx_packets": s.TxPackets, "rx_bytes": s.RxOctets, "tx_bytes": s.TxOctets,
		"rx_dropped": s.RxDropped, "tx_dropped": s.TxDropped, "rx_errors": s.RxErrors, "tx_errors": s.TxErrors,
		"rx_frame_err": s.RxFrameErr, "rx_over_err": s.RxOverErr, "rx_crc_err": s.RxCRCErr, "collisions": s.Collided,
		"duration_sec": s.Duration.Sec, "duration_nsec": s.Duration.Nsec,
	})
}

func queueStats(s openflow.QueueStats) object {
	return class("OFPQueueStats", object{
		"port_no": s.Port, "queue_id": s.Queue, "tx_bytes": s.TxOctets, "tx_packets": s.TxPackets, "tx_errors": s.TxErrors,
		"duration_sec": s.Duration.Sec, "duration_nsec": s.Duration.Nsec,
	})
}

func groupStats(s openflow.GroupStats) object {
	return class("OFPGroupStats", object{
		"group_id": s.Group, "ref_count": s.References, "packet_count": s.Packets, "byte_count": s.Octets,
		"duration_sec": s.Duration.Sec, "duration_nsec": s.Duration.Nsec,
		"bucket_stats": list(s.Buckets, func(c openflow.Counter) object {
			return class("OFPBucketCounter", object{"packet_count": c.Packets, "byte_count": c.Octets})
		}),
	})
}

func groupDesc(g openflow.GroupDesc) object {
	return class("OFPGroupDescStats", object{"type": g.Kind, "group_id": g.Group, "buckets": list(g.Buckets, bucket)})
}

func meterStats(s openflow.MeterStats) object {
	return class("OFPMeterStats", object{
		"meter_id": s.Meter, "flow_count": s.Flows, "packet_in_count": s.In.Packets, "byte_in_count": s.In.Octets,
		"duration_sec": s.Duration.Sec, "duration_nsec": s.Duration.Nsec,
		"band_stats": list(s.Bands, func(c openflow.Counter) object {
			return class("OFPMeterBandStats", object{"packet_band_count": c.Packets, "byte_band_count": c.Octets})
		}),
	})
}

func meterConfig(c openflow.MeterConfig) object {
	return class("OFPMeterConfigStats", object{"flags": c.Flags, "meter_id": c.Meter, "bands": list(c.Bands, band)})
}

func tableFeatures(f openflow.TableFeatures) object {
	return class("OFPTableFeaturesStats", object{
		"table_id": f.Table, "name": f.Name, "metadata_match": f.MetadataMatch, "metadata_write": f.MetadataWrite,
		"config": f.Config, "max_entries": f.MaxEntries, "properties": list(f.Properties, tableProp),
	})
}

func tableProp(p openflow.TableProp) object {
	switch p.Kind {
	case openflow.PropInstructions, openflow.PropInstructionsMiss:
		return class("OFPTableFeaturePropInstructions", object{
			"type": p.Kind, "instruction_ids": list(p.Types, func(id openflow.TypeID) object {
				return class("OFPInstructionId", object{"type": id.Type})
			}),
		})
	case openflow.PropNextTables, openflow.PropNextTablesMiss:
		tables := []any{}
		for _, t := range p.Tables {
			tables = append(tables, t)
		}
		return class("OFPTableFeaturePropNextTables", object{"type": p.Kind, "table_ids": tables})
	case openflow.PropExperimenter, openflow.PropExperimenterMiss:
		words := []any{} // os-ken lists words
		for at := 8; at+4 <= len(p.Data); at += 4 {
			words = append(words, binary.BigEndian.Uint32(p.Data[at:]))
		}
		return class("OFPTableFeaturePropExperimenter", object{
			"type": p.Kind, "experimenter": binary.BigEndian.Uint32(p.Data), "exp_type": binary.BigEndian.Uint32(p.Data[4:]),
			"data": words,
		})
	}
	if p.Types != nil {
		return class("OFPTableFeaturePropActions", object{
			"type": p.Kind, "action_ids": list(p.Types, func(id openflow.TypeID) object {
				return class("OFPActionId", object{"type": id.Type})
			}),
		})
	}
	if p.Fields != nil {
		return class("OFPTableFeaturePropOxm", object{"type": p.Kind, "oxm_ids": list(p.Fields, fieldID)})
	}
	panic(fmt.Sprintf("describe property %v", p.Kind))
}

func fieldID(id openflow.FieldID) object {
	mask := 0
	if id.Masked {
		mask = 1
	}
	return class("OFPOxmId", object{"type": id.Field.String(), "hasmask": mask, "length": id.Length})
}
