package table

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"

	"github.com/apache/arrow/go/v17/parquet/metadata"
	flatbuffers "github.com/google/flatbuffers/go"
)

// Parquet has no type for categories. A program that writes such a column, for instance a pandas category of whole
// numbers, writes the numbers, and notes in the file's metadata what they were.
const (
	keyArrow  = "ARROW:schema" // an Arrow schema, as an IPC message in base64
	keyPandas = "pandas"       // JSON
)

// dictionaries returns the names of the columns that were categories in the program that wrote the file, by the
// metadata of Arrow and of pandas. Metadata that cannot be read is ignored.
func dictionaries(kv metadata.KeyValueMetadata) map[string]bool {
	out := map[string]bool{}
	for _, from := range []struct {
		key  string
		read func(text string, out map[string]bool) error
	}{{keyArrow, arrowDictionaries}, {keyPandas, pandasCategories}} {
		text := kv.FindValue(from.key)
		if text == nil {
			continue
		}
		found := map[string]bool{}
		if recoverPanics(func() error { return from.read(*text, found) }) == nil {
			for name := range found {
				out[name] = true
			}
		}
	}

	return out
}

// pandasIndex returns the names of the columns in which pandas has written its row labels, by its own metadata.
// Metadata that cannot be read is ignored.
func pandasIndex(kv metadata.KeyValueMetadata) map[string]bool {
	out := map[string]bool{}
	var said struct {
		Index []any `json:"index_columns"` // names, or descriptions of ranges, which have no column
	}
	if text := kv.FindValue(keyPandas); text != nil && json.Unmarshal([]byte(*text), &said) == nil {
		for _, index := range said.Index {
			if name, ok := index.(string); ok {
				out[name] = true
			}
		}
	}
	return out
}

// pandasCategories adds to out the names of the columns that pandas' own description calls categorical.
func pandasCategories(text string, out map[string]bool) error {
	var said struct {
		Columns []struct {
			Field string `json:"field_name"`
			Type  string `json:"pandas_type"`
		} `json:"columns"`
	}

	if err := json.Unmarshal([]byte(text), &said); err != nil {
		return err
	}

	for _, c := range said.Columns {
		if c.Type == "categorical" {
			out[c.Field] = true
		}
	}

	return nil
}

// Offsets of fields in the tables of Arrow's Message.fbs and Schema.fbs. In a FlatBuffers table, it is 4 plus twice the
// field's number.
const (
	messageHeader   = 4 + 2*2
	schemaFields    = 4 + 2*1
	fieldName       = 4 + 2*0
	fieldDictionary = 4 + 2*4
)

// arrowDictionaries adds to out the names of the dictionary-encoded fields of an Arrow schema, which text holds as an
// IPC message in base64. It panics on invalid offsets; its caller recovers.
func arrowDictionaries(text string, out map[string]bool) error {
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return err
	}

	// A message begins with its length, preceded since version 0.15 by a marker.
	if len(data) >= 8 && binary.LittleEndian.Uint32(data) == 0xffffffff {
		data = data[4:]
	}
	if len(data) < 8 {
		return nil
	}
	data = data[4:]

	// From the message to its schema, and to the list of fields.
	message := flatbuffers.Table{Bytes: data, Pos: flatbuffers.GetUOffsetT(data)}
	at := flatbuffers.UOffsetT(message.Offset(messageHeader))
	if at == 0 {
		return nil
	}
	var schema flatbuffers.Table
	message.Union(&schema, at)

	fields := flatbuffers.UOffsetT(schema.Offset(schemaFields))
	if fields == 0 {
		return nil
	}
	first := schema.Vector(fields)
	for i := range schema.VectorLen(fields) {
		field := flatbuffers.Table{Bytes: data, Pos: schema.Indirect(first + flatbuffers.UOffsetT(4*i))}
		name := flatbuffers.UOffsetT(field.Offset(fieldName))
		if name != 0 && field.Offset(fieldDictionary) != 0 {
			out[field.String(name+field.Pos)] = true
		}
	}
	return nil
}
