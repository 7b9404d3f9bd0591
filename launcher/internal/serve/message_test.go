package serve

import (
	"fmt"
	"math"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"coppice/internal/dataset"
)

// protocol has the protocol's messages as its specification has them: a line each, the fields by their number. A star
// is a list, and a name with a capital letter a message. A map is a list of entries on the wire.
const protocol = `Named name:string version:string
ServerMetadataResponse name:string version:string extensions:*string
ModelMetadataResponse name:string versions:*string platform:string inputs:*Tensor outputs:*Tensor
Truth is:bool
Value bool_param:bool int64_param:int64 string_param:string
Entry key:string value:Value
Contents b:*bool i:*int32 l:*int64 u:*uint32 ul:*uint64 f:*float d:*double s:*bytes
Tensor name:string datatype:string shape:*int64 parameters:*Entry contents:Contents
Output name:string parameters:*Entry
ModelInferRequest model_name:string model_version:string id:string parameters:*Entry inputs:*Tensor ` +
	`outputs:*Output raw:*bytes
ModelInferResponse model_name:string model_version:string id:string parameters:*Entry outputs:*Tensor raw:*bytes`

var messages = func() protoreflect.MessageDescriptors {
	kinds := map[string]descriptorpb.FieldDescriptorProto_Type{}
	for number, name := range descriptorpb.FieldDescriptorProto_Type_name {
		kinds[strings.ToLower(strings.TrimPrefix(name, "TYPE_"))] = descriptorpb.FieldDescriptorProto_Type(number)
	}
	file := &descriptorpb.FileDescriptorProto{Name: proto.String("p.proto"), Syntax: proto.String("proto3")}
	for line := range strings.Lines(protocol) {
		words := strings.Fields(line)
		message := &descriptorpb.DescriptorProto{Name: &words[0]}
		for i, word := range words[1:] {
			name, kind, _ := strings.Cut(word, ":")
			f := &descriptorpb.FieldDescriptorProto{Name: &name, Number: proto.Int32(int32(i + 1)),
				Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()}
			if one, list := strings.CutPrefix(kind, "*"); list {
				kind, f.Label = one, descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
			}
			if kind[0] < 'a' {
				f.TypeName, kind = proto.String("."+kind), "message"
			}
			f.Type = kinds[kind].Enum()
			message.Field = append(message.Field, f)
		}
		file.MessageType = append(file.MessageType, message)
	}
	built, err := protodesc.NewFile(file, nil)
	if err != nil {
		panic(err)
	}
	return built.Messages()
}()

// NewMessage returns a message that the library of Protocol Buffers reads and writes. Names of fields and their values
// follow; a slice is a list.
func NewMessage(name string, fields ...any) *dynamicpb.Message {
	m := dynamicpb.NewMessage(messages.ByName(protoreflect.Name(name)))
	for i := 0; i < len(fields); i += 2 {
		f := m.Descriptor().Fields().ByName(protoreflect.Name(fields[i].(string)))
		if !f.IsList() {
			m.Set(f, protoreflect.ValueOf(fields[i+1]))
			continue
		}
		list, from := m.Mutable(f).List(), reflect.ValueOf(fields[i+1])
		for j := range from.Len() {
			list.Append(protoreflect.ValueOf(from.Index(j).Interface()))
		}
	}
	return m
}

// Field is a message's field of a name.
func Field(m protoreflect.Message, name string) protoreflect.Value {
	return m.Get(m.Descriptor().Fields().ByName(protoreflect.Name(name)))
}

// encoded is a request with these inputs.
func encoded(tb testing.TB, raw [][]byte, inputs ...*dynamicpb.Message) []byte {
	tb.Helper()
	q := NewMessage("ModelInferRequest", "id", "7", "inputs", inputs, "raw", raw)
	out, err := proto.MarshalOptions{Deterministic: true}.Marshal(q)
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

// TestValuesOfMessages: each datatype has the values that the same tensor has in JSON, or is refused as it is there.
func TestValuesOfMessages(t *testing.T) {
	m := forColumns("a")
	for _, c := range []struct{ datatype, field, text, says string }{
		{"BOOL", "b", "[true,false,true]", ""},
		{"INT8", "i", "[-128,0,127]", ""}, {"INT8", "i", "[-128,0,128]", "128 is not of the datatype INT8"},
		{"INT16", "i", "[-32768,0,32767]", ""}, {"INT16", "i", "[0,-32769,0]", "is not of the datatype INT16"},
		{"INT32", "i", "[-2147483648,0,2147483647]", ""},
		{"INT64", "l", "[-9223372036854775808,0,9223372036854775807]", ""},
		{"UINT8", "u", "[0,1,255]", ""}, {"UINT8", "u", "[0,1,256]", "256 is not of the datatype UINT8"},
		{"UINT16", "u", "[0,1,65535]", ""}, {"UINT16", "u", "[65536,1,1]", "is not of the datatype UINT16"},
		{"UINT32", "u", "[0,1,4294967295]", ""},
		{"UINT64", "ul", "[0,1,9223372036854775807]", ""}, {"UINT64", "ul", "[0,9223372036854775808,0]", "row 2: "},
		{"FP32", "f", "[0.1,-3.4028234663852886e38,1e-45]", ""},
		{"FP64", "d", "[0.1,-1.7976931348623157e308,5e-324]", ""},
		{"BYTES", "s", `["YQ==","","w7w="]`, ""},
		{"BYTES", "s", `["YQ==","/w==",""]`, "row 2: a text that is not UTF-8"},
		{"INT64", "d", "[1,2,3]", "values of another datatype"}, {"FP64", "f", "[1,2,3]", "values of another datatype"},
		{"BYTES", "l", "[1,2,3]", "values of another datatype"}, {"FP65", "d", "[1,2,3]", "has the datatype"},
		{"FP64", "d", "[1,2]", "2 values in 3 rows"}, {"BYTES", "s", "[\"\"]", "1 values in 3 rows"},
		{"FP64", "d", "[1,2,3,4]", "more than 3 values"}, {"BYTES", "s", `["","","",""]`, "more than 3 texts"},
		{"FP64", "d", "[]", "0 values in 3 rows"},
	} {
		message := NewMessage("Contents")
		if err := protojson.Unmarshal(fmt.Appendf(nil, `{%q:%s}`, c.field, c.text), message); err != nil {
			t.Fatal(err)
		}
		input := NewMessage("Tensor", "name", "a", "datatype", c.datatype, "shape", []int64{3, 1}, "contents", message)
		got, q, err := readMessage(m, encoded(t, nil, input), fuzzRows)
		if c.says != "" {
			if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), `column "a"`) {
				t.Errorf("%s %s in field %s: got %v, want an error about column a with ... %s ...", c.datatype, c.text,
					c.field, err, c.says)
			}
			continue
		}
		text := c.text
		if c.datatype == "BYTES" {
			text = `["a","","ü"]`
		}
		want, _, wrong := readInfer(m, fmt.Appendf(nil, `{"inputs":[{"name":"a","datatype":%q,"shape":[3],"data":%s}]}`,
			c.datatype, text), -1, fuzzRows)
		if err != nil || wrong != nil || !reflect.DeepEqual(got, want) || q.id != "7" || q.binary {
			t.Errorf("%s %s: got %+v, %v; want what JSON gives, %+v, %v", c.datatype, c.text, got, err, want, wrong)
		}
	}
}

// TestDamagedMessages: each ends in an error that says what is wrong, and takes no more memory than a few times its
// own.
func TestDamagedMessages(t *testing.T) {
	m := forColumns("a", "b")
	of := func(datatype string, shape []int64, more ...any) *dynamicpb.Message {
		return NewMessage("Tensor", append([]any{"name", "a", "datatype", datatype, "shape", shape}, more...)...)
	}
	text := NewMessage("Contents", "s", [][]byte{{'x'}})
	good := of("BYTES", []int64{1}, "contents", text)
	other := NewMessage("Tensor", "name", "b", "datatype", "FP64", "shape", []int64{1})
	tag := func(number protowire.Number, bytes string) string { return string(appendText(nil, number, bytes)) }
	many := func(part string) []byte { return []byte(strings.Repeat(part, (4<<20)/len(part))) }
	fp := make([]byte, 8)
	for name, c := range map[string]struct {
		message []byte
		says    string
	}{
		"nothing":          {nil, "no inputs"},
		"no message":       {[]byte("\xff\xff\xff"), "not a message"},
		"JSON":             {[]byte(`{"inputs":[]}`), "not a message"},
		"cut":              {encoded(t, nil, good)[:20], "not a message"},
		"a length beyond":  {[]byte("\x2a\xff\xff\xff\xff\x0f"), "not a message"},
		"a varint beyond":  {[]byte("\x28\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), "not a message"},
		"field 0":          {[]byte("\x02\x00"), "not a message"},
		"groups in groups": {many("\x0b"), "not a message"},
		"a group's end":    {[]byte("\x0c"), "not a message"},
		"an id":            {[]byte(tag(3, "\xff")), "not UTF-8"},
		"a name":           {[]byte(tag(5, tag(1, "\xff"))), "not UTF-8"},
		"a datatype":       {[]byte(tag(5, tag(2, "\xff"))), "not UTF-8"},
		"an empty input":   {[]byte(tag(5, "")), "has the shape []"},
		"no shape":         {encoded(t, nil, of("BYTES", nil, "contents", text)), "has the shape []"},
		"no datatype":      {encoded(t, nil, of("", []int64{1}, "contents", text)), "has the datatype"},
		"no contents":      {encoded(t, nil, of("BYTES", []int64{1})), "0 values in 1 rows"},
		"no rows":          {encoded(t, nil, of("BYTES", []int64{0})), "no rows"},
		"too many rows":    {encoded(t, nil, of("BYTES", []int64{6})), "more than 5 rows"},
		"-1 rows":          {encoded(t, nil, of("BYTES", []int64{-1})), "more than 8 dimensions, or with -1"},
		"9 dimensions":     {encoded(t, nil, of("BYTES", make([]int64, 9))), "a shape of more than 8 dimensions"},
		"two columns":      {encoded(t, nil, of("BYTES", []int64{1, 2})), "has the shape [1 2]"},
		"an overflow":      {encoded(t, [][]byte{nil}, of("FP64", []int64{1 << 61, 1})), "more than 5 rows"},
		"an overflow of two": {encoded(t, [][]byte{nil}, of("FP64", []int64{1 << 32, 1 << 32})),
			"has the shape [4294967296 4294967296]"},
		"twice":          {encoded(t, nil, good, good), "two inputs have this name"},
		"contents twice": {[]byte(tag(5, tag(5, "")+tag(5, ""))), "has contents twice"},
		"rows differ":    {encoded(t, nil, good, of("FP64", []int64{2})), "two inputs"},
		"a column lacks": {encoded(t, nil, good), `column "b": no such column`},
		"both contents":  {encoded(t, [][]byte{{}}, good), "has contents beside raw_input_contents"},
		"too few raw":    {encoded(t, [][]byte{fp}, other, of("FP64", []int64{1})), "1 raw_input_contents of 2 inputs"},
		"too many raw":   {encoded(t, [][]byte{fp, fp}, other), "2 raw_input_contents of 1 inputs"},
		"raw without":    {encoded(t, [][]byte{fp}), "1 raw_input_contents of 0 inputs"},
		"raw is short":   {encoded(t, [][]byte{fp[:7]}, other), "7 bytes of data where 1 rows of FP64 have 8"},
		"raw is long":    {encoded(t, [][]byte{append(fp, 0)}, other), "9 bytes of data"},
		"a raw text":     {encoded(t, [][]byte{{255, 255, 255, 255, 0}}, of("BYTES", []int64{1})), "leaves the data"},
		"a raw text cut": {encoded(t, [][]byte{{1, 0, 0}}, of("BYTES", []int64{1})), "leaves the data"},
		"an output":      {[]byte(tag(6, tag(1, "odds"))), `there is no output "odds", only: prediction`},
		"empty inputs":   {many(tag(5, "")), "more than 32768 inputs"},
		"empty raw":      {many(tag(7, "")), "more than 32768 raw_input_contents"},
		"dimensions":     {[]byte(tag(5, tag(3, string(many("\x01"))))), "a shape of more than 8 dimensions"},
		"packed numbers": {[]byte(tag(5, tag(1, "a")+tag(2, "BOOL")+tag(3, "\x01")+tag(5, tag(1,
			string(many("\x01")))))), "more than 1 values"},
		"a packed number cut": {[]byte(tag(5, tag(1, "a")+tag(2, "FP64")+tag(3, "\x01")+tag(5, tag(7, "1234567")))),
			"not a message"},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		b, _, err := readMessage(m, c.message, fuzzRows)
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v, %.200v; want an error with ... %s ...", name, b, err, c.says)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 32<<20 { // of which most is inputs that grow
			t.Errorf("%s: a message of %d bytes took %d bytes, want at most 32 MiB", name, len(c.message), used)
		}
	}
}

// FuzzMessage compares with the library of Protocol Buffers: what is read, it reads as well, with the same values.
func FuzzMessage(f *testing.F) {
	text := NewMessage("Contents", "s", [][]byte{[]byte("x"), nil})
	f.Add(encoded(f, nil, NewMessage("Tensor", "name", "b", "datatype", "BYTES", "shape", []int64{2}, "contents", text),
		NewMessage("Tensor", "name", "a", "datatype", "FP64", "shape", []int64{2, 1}, "contents",
			NewMessage("Contents", "d", []float64{1, -2}))))
	f.Add(encoded(f, nil, NewMessage("Tensor", "name", "b", "datatype", "INT8", "shape", []int64{1}, "contents",
		NewMessage("Contents", "i", []int32{-3})), NewMessage("Tensor", "name", "a", "datatype", "UINT64", "shape",
		[]int64{1}, "contents", NewMessage("Contents", "ul", []uint64{7}))))
	f.Add(encoded(f, [][]byte{{1, 0, 0, 0, 'x'}, {1, 0}},
		NewMessage("Tensor", "name", "a", "datatype", "BYTES", "shape", []int64{1}),
		NewMessage("Tensor", "name", "b", "datatype", "UINT16", "shape", []int64{1})))
	m := forColumns("a", "b")
	f.Fuzz(func(t *testing.T, body []byte) {
		_, _ = message(body)
		b, q, err := readMessage(m, body, fuzzRows)
		if err != nil {
			return
		}
		checkBatch(t, m, b)
		want := NewMessage("ModelInferRequest")
		if err := proto.Unmarshal(body, want); err != nil {
			t.Fatalf("%q was read, and is no message: %v", body, err)
		}
		if id := Field(want, "id").String(); id != q.id {
			t.Fatalf("%q: got the id %q, want %q", body, q.id, id)
		}
		inputs := Field(want, "inputs").List()
		for i := range inputs.Len() {
			input := inputs.Get(i).Message()
			place, known := m.place[Field(input, "name").String()]
			if !known || q.binary {
				continue
			}
			contents := Field(input, "contents").Message()
			at := 0
			contents.Range(func(_ protoreflect.FieldDescriptor, list protoreflect.Value) bool {
				for j := range list.List().Len() {
					got, want := cellOf(&b.Columns[place], at), list.List().Get(j).Interface()
					if !sameCell(got, want) {
						t.Fatalf("%q: row %d of column %d is %v, want %v", body, at, place, got, want)
					}
					at++
				}
				return true
			})
			if at != b.Rows {
				t.Fatalf("%q: got %d rows, want %d", body, b.Rows, at)
			}
		}
	})
}

// cellOf is a value as fmt prints what the library has read.
func cellOf(v *dataset.Values, row int) any {
	switch v.Type {
	case dataset.Text:
		return []byte(v.Text[row])
	case dataset.Float:
		return v.Float[row]
	case dataset.Bool:
		return v.Int[row] == 1
	}
	return v.Int[row]
}

func sameCell(got, want any) bool {
	if x, ok := want.(float32); ok {
		want = float64(x)
	}
	if x, ok := want.(float64); ok {
		y, ok := got.(float64)
		return ok && (x == y || math.IsNaN(x) && math.IsNaN(y))
	}
	return fmt.Sprint(got) == fmt.Sprint(want)
}
