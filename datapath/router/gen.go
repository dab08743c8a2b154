// Package router is the kernel side of the request router: it loads and attaches the programs, pins their state so that sessions
// outlive the process, and wraps each map in Go types.
//
// Values (Config, VIP, Pool, ...) become kernel state only through methods of Router.
package router

//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -cc clang-19 -strip ../strip.sh -target bpfel -no-global-types -type tuple -type flow -type vip_key -type vip -type host_key -type route_key -type route -type pool -type pool_name -type choices -type zone_key -type surrogate -type limit -type config -type bound -type session_bound -type verdict -type splice -type splice_state -type splice_flag -type framing -type side -type client -type syn_options_key -type path_key -type client_state -type client_flag -type leg_event -type too_big_event -type event_kind -type leg_end -type band -type splice_command -type command_kind -type ended -type policy -type mode -type vip_flag -type reuse -type header -type method -type request_log -type log_head -type authority -type log_state -type log_flag -type edit -type field_mark -type watches -type completion -type decided -type handshake -type leg_frame router ../../bpf/router/router.bpf.c -- -I../../bpf/include -mcpu=v3 -Wall -Wextra -Werror -Wno-unused-parameter

//go:generate go run ../names -type routerVerdict -in router_bpfel.go -out verdict_names.go
