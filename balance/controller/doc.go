// Package controller is the OpenFlow 1.3 application that spreads a host's flows over its links. It keeps a switch's tables as package
// tables makes them, is the internal gateway for ARP, neighbour discovery and ping, and, for the method config.Controller, chooses each
// flow's link itself, like algorithm 1 of "Pushing SDN to the End-Host" (Al-Najjar, Layeghy, Portmann, 2016). It needs only OpenFlow 1.3.5,
// unless the tables need more.
//
// A machine without connections or a clock decides about packets (machine.go); its tests are transcripts. [Controller] passes it a
// channel's messages, and sends its replies.
package controller
