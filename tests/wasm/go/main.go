// A plugin in Go, built for wasip1 as a library. The SDK for Go has to come from its repository, which is no module of the proxy, so this
// speaks the interface itself, as the SDK does.
package main

import (
	"strconv"
	"unsafe"
)

//go:wasmimport env proxy_log
func proxyLog(level uint32, data unsafe.Pointer, size uint32) uint32

//go:wasmimport env proxy_replace_header_map_value
func replaceHeader(kind uint32, name unsafe.Pointer, nameSize uint32, value unsafe.Pointer, valueSize uint32) uint32

//go:wasmimport env proxy_get_buffer_bytes
func getBuffer(kind uint32, start uint32, most uint32, data unsafe.Pointer, size unsafe.Pointer) uint32

func main() {}

//go:wasmexport proxy_abi_version_0_2_1
func version() {}

var given = map[uintptr][]byte{}

//go:wasmexport proxy_on_memory_allocate
func allocate(size uint32) unsafe.Pointer {
	memory := make([]byte, size)
	at := unsafe.Pointer(unsafe.SliceData(memory))
	given[uintptr(at)] = memory
	return at
}

func text(value string) (unsafe.Pointer, uint32) {
	return unsafe.Pointer(unsafe.StringData(value)), uint32(len(value))
}

var requests int

//go:wasmexport proxy_on_request_headers
func onRequestHeaders(context uint32, count uint32, end uint32) uint32 {
	requests++
	line, size := text("request " + strconv.Itoa(requests) + " of the instance")
	proxyLog(3, line, size)
	return 0
}

//go:wasmexport proxy_on_response_headers
func onResponseHeaders(context uint32, count uint32, end uint32) uint32 {
	var data uintptr
	var size uint32
	if getBuffer(7, 0, 1<<30, unsafe.Pointer(&data), unsafe.Pointer(&size)) != 0 {
		return 1
	}
	value := string(given[data][:size])
	delete(given, data)
	name, nameSize := text("x-tag")
	at, length := text(value)
	replaceHeader(2, name, nameSize, at, length)
	return 0
}
