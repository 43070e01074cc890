package pyfunc

import "encoding/json"

// protocolVersion is the version of the function protocol (docs/format/function.md).
const protocolVersion = 2

// maxMessage is the maximum length of a message.
const maxMessage = 64 << 20

// The messages of leat. All start with their type.
type (
	loadMessage struct {
		Type     string          `json:"type"`
		Protocol int             `json:"protocol"`
		Version  string          `json:"version"`
		Function *functionSource `json:"function,omitempty"`
	}
	functionSource struct {
		File      string   `json:"file,omitempty"`
		Module    string   `json:"module,omitempty"`
		Name      string   `json:"name"`
		Directory string   `json:"directory"`
		Path      []string `json:"path,omitempty"`
		SHA256    string   `json:"sha256"`
		Source    []byte   `json:"source,omitempty"`
	}
	setupMessage struct {
		Type           string          `json:"type"`
		Worker         int             `json:"worker"`
		Workers        int             `json:"workers"`
		Slot           int             `json:"slot"`
		Label          string          `json:"label"`
		Params         json.RawMessage `json:"params"`
		Grid           gridMessage     `json:"grid"`
		Blocks         blocksMessage   `json:"blocks"`
		Overlap        int             `json:"overlap"`
		Inputs         []inputMessage  `json:"inputs"`
		Outputs        []outputMessage `json:"outputs"`
		Emits          bool            `json:"emits"`
		MaxOutputBytes int64           `json:"max_output_bytes"`
	}
	gridMessage struct {
		Width     int       `json:"width"`
		Height    int       `json:"height"`
		Transform []float64 `json:"transform"`
		CRS       string    `json:"crs"`
	}
	blocksMessage struct {
		Count   int `json:"count"`
		Columns int `json:"columns"`
		Rows    int `json:"rows"`
	}
	inputMessage struct {
		Name  string        `json:"name"`
		List  bool          `json:"list"`
		Files []fileMessage `json:"files"`
	}
	fileMessage struct {
		Path       string    `json:"path"`
		Type       string    `json:"type"`
		Bands      []int     `json:"bands"`
		Nodata     []*string `json:"nodata"`
		MaskPlanes int       `json:"mask_planes,omitempty"`
		Mask       []int     `json:"mask,omitempty"`
		Scale      []string  `json:"scale,omitempty"`
		Offset     []string  `json:"offset,omitempty"`
		Unscale    bool      `json:"unscale,omitempty"`
	}
	outputMessage struct {
		Name   string  `json:"name"`
		Type   string  `json:"type"`
		Bands  int     `json:"bands"`
		Nodata *string `json:"nodata"`
	}
	memoryMessage struct {
		Type    string `json:"type"`
		Number  int    `json:"number"`
		Bytes   int    `json:"bytes"`
		Begin   int64  `json:"begin"`
		Private bool   `json:"private"`
	}
	closeMessage struct {
		Type string `json:"type"`
	}
)

// answer is any message of the server that is JSON.
type answer struct {
	Type string `json:"type"`
	// loaded
	Protocol int    `json:"protocol"`
	PID      int    `json:"pid"`
	File     string `json:"file"`
	SHA256   string `json:"sha256"`
	Closes   bool   `json:"closes"`
	// ready
	Ahead bool `json:"ahead"`
	// closed
	Value json.RawMessage `json:"value"`
	// error
	Kind      string `json:"kind"`
	Message   string `json:"message"`
	Traceback string `json:"traceback"`
}
