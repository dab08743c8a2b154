// Package northbound is the controller's interface for request routers, operators and the web page: JSON-RPC 2.0 over WebSocket, a
// REST view of the same with its description, and who may call what.
package northbound
