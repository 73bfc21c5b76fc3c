# Links what Verilator generated with the benches' C++; run in the folder with Vtop.mk.
# HDL: this folder; LIBRARIES: folder of cocotb's libraries.
include Vtop.mk

VPATH += $(HDL)
OBJECTS = memory.o protocol.o system.o $(VK_GLOBAL_OBJS) Vtop__ALL.a

../cocotb: cocotb_main.o $(OBJECTS)
	$(CXX) -o $@ $^ -lpthread -rdynamic -Wl,-rpath,$(LIBRARIES) -L$(LIBRARIES) -lcocotbvpi_verilator

../system.so: library.o $(OBJECTS)
	$(CXX) -o $@ -shared -Wl,-Bsymbolic -Wl,-z,defs $^ -lpthread
