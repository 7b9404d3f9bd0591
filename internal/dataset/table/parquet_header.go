package table

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/apache/thrift/lib/go/thrift"
)

// pageHeader is the part of a page's header needed to read flat columns. Source: parquet.thrift of
// apache/parquet-format.
type pageHeader struct {
	typ          int64 // one of the page types below
	uncompressed int64 // bytes
	compressed   int64 // bytes in the file
	hasCRC       bool
	crc          int64

	values     int64
	encoding   int64
	levels     int64 // encoding of definition levels, in a data page
	repeated   int64 // encoding of repetition levels, in a data page
	nulls      int64 // this and the following only in a data page of version 2
	rows       int64
	levelBytes int64
	repBytes   int64
	packed     bool // whether the values are compressed
}

// Types of pages. Others, such as index pages, are skipped.
const (
	pageData       = 0
	pageDictionary = 2
	pageDataV2     = 3
)

// errShort means that the header continues beyond the data.
var errShort = errors.New("the page header is truncated")

// maxDepth bounds the nesting of skipped fields.
const maxDepth = 8

var thriftConfig = &thrift.TConfiguration{MaxMessageSize: maxHeader}

// parsePageHeader parses the header at the start of data and returns its length. errShort means that it needs more
// data.
func parsePageHeader(data []byte) (h pageHeader, n int, err error) {
	in := &thrift.TMemoryBuffer{Buffer: bytes.NewBuffer(data)}
	r := headerReader{thrift.NewTCompactProtocolConf(in, thriftConfig)}
	h.packed = true

	err = r.fields(func(id int16, typ thrift.TType) (bool, error) {
		switch {
		case id == 1 && typ == thrift.I32:
			return true, r.number(&h.typ)
		case id == 2 && typ == thrift.I32:
			return true, r.number(&h.uncompressed)
		case id == 3 && typ == thrift.I32:
			return true, r.number(&h.compressed)
		case id == 4 && typ == thrift.I32:
			h.hasCRC = true
			return true, r.number(&h.crc)
		case (id == 5 || id == 7) && typ == thrift.STRUCT: // of data pages and dictionaries
			return true, r.numbers(map[int16]*int64{1: &h.values, 2: &h.encoding, 3: &h.levels, 4: &h.repeated}, nil)
		case id == 8 && typ == thrift.STRUCT:
			return true, r.numbers(map[int16]*int64{1: &h.values, 2: &h.nulls, 3: &h.rows, 4: &h.encoding,
				5: &h.levelBytes, 6: &h.repBytes}, &h.packed)
		}
		return false, nil
	})

	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return h, 0, errShort
	}
	if err != nil {
		return h, 0, fmt.Errorf("a page header that is not one: %w", err)
	}

	for _, size := range []int64{h.uncompressed, h.compressed, h.values, h.levelBytes, h.repBytes} {
		if size < 0 || size > maxPage {
			return h, 0, fmt.Errorf("a page header with the number %d", size)
		}
	}

	return h, len(data) - in.Len(), nil
}

// headerReader reads structs of Thrift's compact protocol. The library's generated reader of page headers is internal
// to it.
type headerReader struct {
	thrift.TProtocol
}

// fields calls read for every field of a struct, and skips those that read does not handle.
func (r headerReader) fields(read func(id int16, typ thrift.TType) (bool, error)) error {
	ctx := context.Background()
	if _, err := r.ReadStructBegin(ctx); err != nil {
		return err
	}

	for {
		_, typ, id, err := r.ReadFieldBegin(ctx)
		if err != nil || typ == thrift.STOP {
			return errors.Join(err, r.ReadStructEnd(ctx))
		}

		known, err := read(id, typ)
		if err == nil && !known {
			err = thrift.Skip(ctx, r, typ, maxDepth)
		}
		if err != nil {
			return err
		}
	}
}

func (r headerReader) number(into *int64) error {
	x, err := r.ReadI32(context.Background())
	*into = int64(x)
	return err
}

// numbers reads a struct's fields into the given variables, and field 7, if it is a boolean, into flag.
func (r headerReader) numbers(into map[int16]*int64, flag *bool) error {
	return r.fields(func(id int16, typ thrift.TType) (bool, error) {
		switch {
		case into[id] != nil && typ == thrift.I32:
			return true, r.number(into[id])
		case id == 7 && flag != nil && typ == thrift.BOOL:
			var err error
			*flag, err = r.ReadBool(context.Background())
			return true, err
		}
		return false, nil
	})
}
