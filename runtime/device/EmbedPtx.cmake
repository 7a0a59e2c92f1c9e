# cmake -DPTX=… -DOUTPUT=… -P EmbedPtx.cmake: the PTX of ChooseTokens.c as a constant. A block has as many threads as its source says, which the
# assembler has to leave registers for.
file(READ ${PTX} text)
string(REPLACE ")\n{" ")\n.maxntid 1024, 1, 1\n{" text "${text}")
file(WRITE ${PTX} "${text}")
file(WRITE ${OUTPUT} "#include \"runtime/device/TokenChooser.h\"

namespace heddle::token_chooser {

const char *ptxCode() {
  return R\"ptx(${text})ptx\";
}

} // namespace heddle::token_chooser
")
